#include "capture/native/native_walker.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "capture/foreign_memory.h"

namespace gpumemprof::capture {
namespace {

// Nothing is ever loaded below it.
constexpr std::uintptr_t kFirstAddress = 4096;

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

  // The range of memory that holds the address; empty if none does, or if it is not for reading.
  AddressRange find(std::uintptr_t address) {
    for (;;) {
      AddressRange range;
      char separator = 0;
      range.begin = number(separator);
      if (separator != '-') return {};
      range.end = number(separator);
      const bool is_readable = separator == ' ' && next() == 'r';
      if (range.holds(address)) return is_readable ? range : AddressRange{};
      int letter = 0;
      do {
        letter = next();
      } while (letter > 0 && letter != '\n');
      if (letter <= 0) return {};
    }
  }

 private:
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
[[gnu::always_inline]] inline bool to_caller(Registers& at, UnwindRule& rule,
                                             const StackWords& stack) {
  std::uintptr_t frame = 0;
  const auto offset = static_cast<std::uintptr_t>(std::intptr_t{rule.frame_offset});
  switch (rule.frame) {
    case UnwindRule::Frame::from_sp:
      frame = at.sp + offset;
      break;
    case UnwindRule::Frame::from_bp:
      frame = at.bp + offset;
      break;
    case UnwindRule::Frame::stored_at_bp:
      if (!stack.has(at.bp + offset)) {
        rule.frame = UnwindRule::Frame::unknown;
        return false;
      }
      frame = StackWords::at(at.bp + offset);
      break;
    case UnwindRule::Frame::unknown:
    case UnwindRule::Frame::outermost:
      return false;
  }
  const std::uintptr_t return_place = frame - sizeof(std::uintptr_t);
  // Stacks grow downwards: a caller's frame is above.
  if (frame <= at.sp || !stack.has(return_place)) {
    rule.frame = UnwindRule::Frame::unknown;
    return false;
  }
  if (rule.bp != UnwindRule::Bp::same) {
    const std::uintptr_t from = rule.bp == UnwindRule::Bp::saved ? frame : at.bp;
    const std::uintptr_t place = from + static_cast<std::uintptr_t>(std::intptr_t{rule.bp_offset});
    // 0 is on no stack: if bp is needed, the stack ends.
    at.bp = rule.bp != UnwindRule::Bp::lost && stack.has(place) ? StackWords::at(place) : 0;
  }
  at.pc = StackWords::at(return_place);
  at.sp = frame;
  return true;
}

}  // namespace

std::uintptr_t StackEnd::look_up(std::uintptr_t sp) {
  // A thread that keeps switching between very many stacks goes without.
  constexpr std::uint32_t kMostLookups = 256;
  if (lookups_ == kMostLookups) return 0;
  ++lookups_;
  const AddressRange range = MapsReader().find(sp);
  begin_ = range.begin;
  end_ = range.end;
  // A thread's own data is above its stack, in the same memory.
  const std::uintptr_t own = thread_pointer();
  if (own > sp && own < end_) end_ = own & ~std::uintptr_t{7};
  if (end_ - sp < 2 * sizeof(std::uintptr_t)) begin_ = end_ = 0;
  return end_;
}

// Not inlined: the walk begins with this function's own frame.
[[gnu::noinline]] std::size_t NativeWalker::walk(NativeStack::Addresses& found, StackEnd& end) {
#if defined(__x86_64__)
  const auto frame = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  const std::uintptr_t limit = end.above(frame);
  if (limit == 0) return 0;
  Registers at;
  at.pc = reinterpret_cast<std::uintptr_t>(__builtin_return_address(0));
  at.sp = frame + 2 * sizeof(std::uintptr_t);
  at.bp = read_raw<std::uintptr_t>(frame);
  const StackWords stack(frame, limit);
  const AddressRange interpreter{interpreter_begin_.load(std::memory_order_relaxed),
                                 interpreter_end_.load(std::memory_order_relaxed)};
  const std::size_t depth = std::min(depth_.load(std::memory_order_relaxed), kMaxNativeDepth);
  std::size_t count = 0;
  bool is_own = true;
  for (;;) {
    if (interpreter.holds(at.pc)) break;
    is_own = is_own && own_.holds(at.pc);
    if (!is_own) {
      if (count == depth) {
        found[count++] = kLeftOutCallers;
        break;
      }
      found[count++] = at.pc;
    }
    UnwindRule rule = table_.find(at.pc);
    if (!to_caller(at, rule, stack)) {
      if (rule.frame == UnwindRule::Frame::unknown) found[count++] = kUnknownCaller;
      break;
    }
    if (at.pc == 0) break;  // written there by whoever starts a thread
    if (at.pc < kFirstAddress) {
      found[count++] = kUnknownCaller;
      break;
    }
  }
  return count;
#else
  static_cast<void>(found);
  static_cast<void>(end);
  return 0;
#endif
}

}  // namespace gpumemprof::capture
