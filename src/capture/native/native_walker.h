// NativeWalker: the return addresses of the calling thread's native stack.
//
// It runs inside the allocator's callbacks: it never allocates, waits or calls torch, and reads
// nothing but the thread's own stack between the frame it begins at and the stack's end. Where the
// way to the caller is not known (code without unwind tables, a signal's frame), the stack ends
// with kUnknownCaller.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "capture/native/known_stacks.h"
#include "capture/native/unwind_table.h"

namespace gpumemprof::capture {

inline constexpr std::size_t kMaxNativeDepth = 256;
inline constexpr std::size_t kUsualNativeDepth = 128;

// In place of an outermost return address: what called it is not known, or was left out because the
// stack is deeper than asked for.
inline constexpr std::uintptr_t kUnknownCaller = 0;
inline constexpr std::uintptr_t kLeftOutCallers = 1;

// The end of the stack that a thread runs on, looked up when it is first seen there: threads may
// switch stacks.
class StackEnd {
 public:
  // 0: not known, and nothing of the stack may be read.
  [[gnu::always_inline]] std::uintptr_t above(std::uintptr_t sp) {
    if (sp >= begin_ && sp < end_) [[likely]]
      return end_;
    return look_up(sp);
  }

 private:
  [[gnu::noinline]] std::uintptr_t look_up(std::uintptr_t sp);

  std::uintptr_t begin_ = 0;
  std::uintptr_t end_ = 0;
  std::uintptr_t mapped_end_ = 0;  // of the memory that it is in
  std::uint32_t lookups_ = 0;
};

using NativeAddresses = std::array<std::uintptr_t, kMaxNativeDepth + 1>;  // innermost first

// What a thread needs for its native stacks. It is valid when all zeros.
struct NativeStack {
  // Memory for what is known, when the thread first needs it: most threads never do. False: there
  // is none to be had.
  bool prepare() { return known != nullptr || take_memory(); }
  void give_memory_back();
  [[nodiscard]] const NativeAddresses& sent() const { return addresses[newest]; }
  [[nodiscard]] const NativeAddresses& walked() const { return addresses[1 - newest]; }
  [[nodiscard]] NativeAddresses& walked() { return addresses[1 - newest]; }

  StackEnd end;
  NativeNumber current = kNoNative;  // that of the last event
  bool is_path_mirrored = false;     // the drain knows the addresses that were last sent
  std::size_t newest = 0;
  std::size_t sent_count = 0;
  std::size_t walked_count = 0;  // of the last walk
  KnownStacks* known = nullptr;
  std::array<NativeAddresses, 2> addresses{};
  WalkProof proof;

 private:
  [[gnu::noinline]] bool take_memory();
};

struct AddressRange {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  [[nodiscard]] bool holds(std::uintptr_t address) const { return address - begin < end - begin; }
};

class NativeWalker {
 public:
  // Whether native stacks can be walked on this kind of processor.
#if defined(__x86_64__)
  static constexpr bool kIsPossible = true;
#else
  static constexpr bool kIsPossible = false;
#endif

  // The innermost frames in `own` are the recorder's, and left out.
  explicit NativeWalker(AddressRange own) : own_(own) {}

  // A frame in this code ends the stack, and is not in it: what called it is Python's to say.
  void set_interpreter(AddressRange code) {
    interpreter_begin_.store(code.begin, std::memory_order_relaxed);
    interpreter_end_.store(code.end, std::memory_order_relaxed);
    change_settings();
  }
  void set_depth(std::size_t depth) {
    if (depth_.exchange(depth, std::memory_order_relaxed) != depth) change_settings();
  }
  void forget_modules() {
    table_.begin_generation();
    change_settings();
  }
  // Walks even where a stack is proven to be there; for tests. Where the two differ, it is counted,
  // or ends the process.
  enum class Checks : std::uint8_t { none, counted, fatal };
  void check_each(Checks checks) { checks_.store(checks, std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t wrong_proofs() const {
    return wrong_proofs_.load(std::memory_order_relaxed);
  }

  // The stack of the caller, as one of those that the thread has had; kNoNative: there is none. Of
  // one that the drain does not know yet, the addresses are walked().
  NativeNumber find(NativeStack& mine);
  // The stack of the caller into `found`, innermost first; returns how many.
  std::size_t walk(NativeAddresses& found, StackEnd& end);

 private:
  struct NoProof;
  // After all that it counts.
  void change_settings() { settings_.fetch_add(1, std::memory_order_release); }
  NativeNumber find_by_walking(NativeStack& mine, const WalkStart& start, std::uint32_t settings);
  void check(const NativeStack& mine, const WalkStart& start, NativeNumber number);
  template <typename Proof>
  std::size_t follow(const WalkStart& start, NativeAddresses& found, StackHash& hash, Proof& proof);

  AddressRange own_;
  std::atomic<std::uint32_t> settings_{1};
  std::atomic<Checks> checks_{Checks::none};
  std::atomic<std::uint64_t> wrong_proofs_{0};
  std::atomic<std::uintptr_t> interpreter_begin_{0};
  std::atomic<std::uintptr_t> interpreter_end_{0};
  std::atomic<std::size_t> depth_{kUsualNativeDepth};
  UnwindTable table_;
};

}  // namespace gpumemprof::capture
