#include "capture/native/native_walker.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "capture/foreign_memory.h"

namespace gpumemprof::capture {
namespace {

// Nothing is ever loaded below it.
constexpr std::uintptr_t kFirstAddress = 4096;
// What is at the frame address of a function: the caller's bp, and the return address.
constexpr std::uintptr_t kOwnWords = 2 * sizeof(std::uintptr_t);

std::uintptr_t thread_pointer() {
#if defined(__x86_64__)
  std::uintptr_t pointer = 0;
  asm("mov %%fs:0, %0" : "=r"(pointer));
  return pointer;
#else
  return 0;
#endif
}

// Reads /proc/self/maps in small pieces: no memory is allocated, and no lock is taken.
class MapsReader {
 public:
  MapsReader() : file_(::open("/proc/self/maps", O_RDONLY | O_CLOEXEC)) {}
  MapsReader(const MapsReader&) = delete;
  MapsReader& operator=(const MapsReader&) = delete;
  ~MapsReader() {
    if (file_ >= 0) ::close(file_);
  }

  struct Found {
    AddressRange range;
    bool grows = false;  // the stack of the main thread, to which the system adds pages
  };
  // The memory that holds the address; empty if none does, or if it is not for reading.
  Found find(std::uintptr_t address) {
    for (;;) {
      AddressRange range;
      char separator = 0;
      range.begin = number(separator);
      if (separator != '-') return {};
      range.end = number(separator);
      const bool is_readable = separator == ' ' && next() == 'r';
      std::uint64_t ending = 0;  // of the line: what the memory is called
      int letter = next();
      for (; letter > 0 && letter != '\n'; letter = next())
        ending = (ending << 8U) | static_cast<std::uint8_t>(letter);
      if (range.holds(address)) return is_readable ? Found{range, ending == kStackName} : Found{};
      if (letter <= 0) return {};
    }
  }

 private:
  static constexpr std::uint64_t kStackName = 0x20'5B'73'74'61'63'6B'5D;  // " [stack]"

  int next() {
    if (at_ == have_) {
      const ssize_t got = file_ < 0 ? 0 : ::read(file_, piece_.data(), piece_.size());
      if (got <= 0) return 0;
      have_ = static_cast<std::size_t>(got);
      at_ = 0;
    }
    return piece_[at_++];
  }
  std::uintptr_t number(char& separator) {
    std::uintptr_t value = 0;
    for (;;) {
      const int letter = next();
      if (letter >= '0' && letter <= '9') {
        value = value * 16 + static_cast<std::uintptr_t>(letter - '0');
      } else if (letter >= 'a' && letter <= 'f') {
        value = value * 16 + static_cast<std::uintptr_t>(letter - 'a' + 10);
      } else {
        separator = static_cast<char>(letter);
        return value;
      }
    }
  }

  int file_;
  std::array<char, 1024> piece_;
  std::size_t at_ = 0;
  std::size_t have_ = 0;
};

// What unwinding needs of the registers.
struct Registers {
  std::uintptr_t pc = 0;
  std::uintptr_t sp = 0;
  std::uintptr_t bp = 0;
};

// Reads of the stack: between where the walk began and the stack's end, and aligned.
class StackWords {
 public:
  StackWords(std::uintptr_t begin, std::uintptr_t end)
      : begin_(begin), size_(end - begin - sizeof(std::uintptr_t)) {}
  [[nodiscard]] bool has(std::uintptr_t address) const {
    return address - begin_ <= size_ && address % sizeof(std::uintptr_t) == 0;
  }
  [[nodiscard]] static std::uintptr_t at(std::uintptr_t address) {
    return read_raw<std::uintptr_t>(address);
  }

 private:
  std::uintptr_t begin_;
  std::uintptr_t size_;
};

// Goes on to the caller; false: there is none, or it is not known, as `rule.frame` says.
template <typename Proof>
[[gnu::always_inline]] inline bool to_caller(Registers& at, UnwindRule& rule,
                                             const StackWords& stack, Proof& proof) {
  std::uintptr_t frame = 0;
  const auto offset = static_cast<std::uintptr_t>(std::intptr_t{rule.frame_offset});
  switch (rule.frame) {
    case UnwindRule::Frame::from_sp:
      frame = at.sp + offset;
      break;
    case UnwindRule::Frame::from_bp:
      proof.uses_bp();
      frame = at.bp + offset;
      break;
    case UnwindRule::Frame::stored_at_bp:
      proof.uses_bp();
      if (!stack.has(at.bp + offset)) {
        rule.frame = UnwindRule::Frame::unknown;
        proof.fail();
        return false;
      }
      frame = StackWords::at(at.bp + offset);
      proof.reads(at.bp + offset, frame);
      break;
    case UnwindRule::Frame::unknown:
    case UnwindRule::Frame::outermost:
      return false;
  }
  const std::uintptr_t return_place = frame - sizeof(std::uintptr_t);
  // Stacks grow downwards: a caller's frame is above.
  if (frame <= at.sp || !stack.has(return_place)) {
    rule.frame = UnwindRule::Frame::unknown;
    proof.fail();
    return false;
  }
  if (rule.bp != UnwindRule::Bp::same) {
    if (rule.bp == UnwindRule::Bp::stored_at_bp) proof.uses_bp();
    const std::uintptr_t from = rule.bp == UnwindRule::Bp::saved ? frame : at.bp;
    const std::uintptr_t place = from + static_cast<std::uintptr_t>(std::intptr_t{rule.bp_offset});
    if (rule.bp != UnwindRule::Bp::lost && stack.has(place)) {
      at.bp = StackWords::at(place);
      proof.restores_bp(place, at.bp);
    } else {
      at.bp = 0;  // it is on no stack: if bp is needed, the stack ends
      proof.loses_bp();
    }
  }
  at.pc = StackWords::at(return_place);
  proof.reads(return_place, at.pc);
  at.sp = frame;
  return true;
}

}  // namespace

std::uintptr_t StackEnd::look_up(std::uintptr_t sp) {
  // A thread that keeps switching between very many stacks goes without.
  constexpr std::uint32_t kMostLookups = 256;
  // The system keeps other memory at least as far from a stack that grows.
  constexpr std::uintptr_t kGrowth = std::uintptr_t{256} * 1024;
  if (lookups_ == kMostLookups) return 0;
  const MapsReader::Found found = MapsReader().find(sp);
  // The same stack has grown, which it cannot do without end.
  if (found.range.end == 0 || found.range.end != mapped_end_) ++lookups_;
  begin_ = found.range.begin - std::min(found.grows ? kGrowth : 0, found.range.begin);
  end_ = mapped_end_ = found.range.end;
  // A thread's own data is above its stack, in the same memory.
  const std::uintptr_t own = thread_pointer();
  if (own > sp && own < end_) end_ = own & ~std::uintptr_t{7};
  if (end_ - sp < 2 * sizeof(std::uintptr_t)) begin_ = end_ = 0;
  return end_;
}

// One system call, which takes no lock of the program's.
bool NativeStack::take_memory() {
  void* memory = ::mmap(nullptr, sizeof(KnownStacks), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return false;
  known = static_cast<KnownStacks*>(memory);
  return true;
}

void NativeStack::give_memory_back() {
  if (known != nullptr) ::munmap(known, sizeof(KnownStacks));
  known = nullptr;
}

// For walks whose result is not kept.
struct NativeWalker::NoProof {
  static void begin(const WalkStart& /*start*/) {}
  static void reads(std::uintptr_t /*place*/, std::uintptr_t /*value*/) {}
  static void restores_bp(std::uintptr_t /*place*/, std::uintptr_t /*value*/) {}
  static void loses_bp() {}
  static void uses_bp() {}
  static void fail() {}
};

template <typename Proof>
[[gnu::always_inline]] inline std::size_t NativeWalker::follow(const WalkStart& start,
                                                               NativeAddresses& found,
                                                               StackHash& hash, Proof& proof) {
  proof.begin(start);
  Registers at{start.pc, start.sp, start.bp};
  const StackWords stack(start.sp - kOwnWords, start.limit);
  const AddressRange interpreter{interpreter_begin_.load(std::memory_order_relaxed),
                                 interpreter_end_.load(std::memory_order_relaxed)};
  const std::size_t depth = std::min(depth_.load(std::memory_order_relaxed), kMaxNativeDepth);
  std::size_t count = 0;
  const auto add = [&](std::uintptr_t address) {
    found[count++] = address;
    hash.add(address);
  };
  bool is_own = true;
  for (;;) {
    if (interpreter.holds(at.pc)) break;
    is_own = is_own && own_.holds(at.pc);
    if (!is_own) {
      if (count == depth) {
        add(kLeftOutCallers);
        break;
      }
      add(at.pc);
    }
    UnwindRule rule = table_.find(at.pc);
    if (!to_caller(at, rule, stack, proof)) {
      if (rule.frame == UnwindRule::Frame::unknown) add(kUnknownCaller);
      break;
    }
    if (at.pc == 0) break;  // written there by whoever starts a thread
    if (at.pc < kFirstAddress) {
      add(kUnknownCaller);
      break;
    }
  }
  return count;
}

// Where the function that this is inlined into starts a walk: at its caller. A limit of 0: the
// stack cannot be read.
[[gnu::always_inline]] inline WalkStart walk_start([[maybe_unused]] StackEnd& end) {
#if defined(__x86_64__)
  const auto frame = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  return {reinterpret_cast<std::uintptr_t>(__builtin_return_address(0)), frame + kOwnWords,
          read_raw<std::uintptr_t>(frame), end.above(frame)};
#else
  return {};
#endif
}

[[gnu::noinline]] std::size_t NativeWalker::walk(NativeAddresses& found, StackEnd& end) {
  const WalkStart start = walk_start(end);
  if (start.limit == 0) return 0;
  StackHash hash(start);
  NoProof proof;
  return follow(start, found, hash, proof);
}

[[gnu::noinline]] [[gnu::hot]] NativeNumber NativeWalker::find(NativeStack& mine) {
  const WalkStart start = walk_start(mine.end);
  if (start.limit == 0 || !mine.prepare()) [[unlikely]]
    return kNoNative;
  // Before anything that it counts.
  const std::uint32_t settings = settings_.load(std::memory_order_acquire);
  const NativeNumber number = mine.known->expected(start, settings);
  if (number == kNoNative) return find_by_walking(mine, start, settings);
  if (checks_.load(std::memory_order_relaxed) != Checks::none) [[unlikely]]
    check(mine, start, number);
  return number;
}

[[gnu::noinline]] NativeNumber NativeWalker::find_by_walking(NativeStack& mine,
                                                             const WalkStart& start,
                                                             std::uint32_t settings) {
  StackHash hash(start);
  mine.walked_count = follow(start, mine.walked(), hash, mine.proof);
  if (mine.walked_count == 0) return kNoNative;
  return mine.known->walked(start, settings, hash, mine.proof);
}

[[gnu::noinline]] void NativeWalker::check(const NativeStack& mine, const WalkStart& start,
                                           NativeNumber number) {
  NativeAddresses found;
  StackHash hash(start);
  NoProof proof;
  follow(start, found, hash, proof);
  if (hash.value() == (*mine.known)[number].hash) return;
  wrong_proofs_.fetch_add(1, std::memory_order_relaxed);
  if (checks_.load(std::memory_order_relaxed) == Checks::fatal) std::abort();
}

}  // namespace gpumemprof::capture
