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
  std::uint32_t lookups_ = 0;
};

// A thread's last native stack, and room for the next.
struct NativeStack {
  using Addresses = std::array<std::uintptr_t, kMaxNativeDepth + 1>;

  [[nodiscard]] const Addresses& last() const { return addresses[newest]; }
  [[nodiscard]] Addresses& spare() { return addresses[1 - newest]; }

  std::array<Addresses, 2> addresses{};  // innermost first
  std::size_t newest = 0;
  std::size_t size = 0;
  bool is_mirrored = false;  // the drain knows the last one
  bool is_current = false;   // the last event had it
  StackEnd end;
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
  }
  void set_depth(std::size_t depth) { depth_.store(depth, std::memory_order_relaxed); }
  // The stack of the caller into `found`, innermost first; returns how many.
  std::size_t walk(NativeStack::Addresses& found, StackEnd& end);
  void forget_modules() { table_.begin_generation(); }

 private:
  AddressRange own_;
  std::atomic<std::uintptr_t> interpreter_begin_{0};
  std::atomic<std::uintptr_t> interpreter_end_{0};
  std::atomic<std::size_t> depth_{kUsualNativeDepth};
  UnwindTable table_;
};

}  // namespace gpumemprof::capture
