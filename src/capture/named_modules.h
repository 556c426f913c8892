// NamedModules: which modules Python has described, for callbacks to see, and a way to ask for
// those that it has not.
//
// A module is best named while it is called for the first time: later it may be gone, and another
// one may lie in its place. So a callback that comes upon an unknown one has Python called back
// soon in its main thread, which then finds the module on its stack. Written with the GIL held,
// read by any thread, without waiting.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

namespace gpumemprof::capture {

class NamedModules {
 public:
  NamedModules();

  void add(std::uintptr_t address);
  void remove(std::uintptr_t address);
  [[nodiscard]] bool has(std::uintptr_t address) const;

  // `ask` has Python called back; it is called from anywhere and never waits. nullptr: nobody asks.
  // Forgets all names.
  void set_asker(void (*ask)());
  // Of an object of this type at this address there is no name.
  void ask_for(std::uintptr_t module, std::uintptr_t type);
  // Python was called back, and may be asked again.
  void answered() { is_asked_.store(false, std::memory_order_release); }

 private:
  static constexpr unsigned kBits = 16;
  static constexpr std::size_t kMost = (std::size_t{1} << kBits) / 2;
  static constexpr std::uintptr_t kRemoved = 1;
  // A program that makes modules all the time is not to be held up all the time.
  static constexpr std::uint32_t kMostQuestions = 1000;

  [[nodiscard]] static std::size_t home(std::uintptr_t address) {
    return (address * 0x9E3779B97F4A7C15ULL) >> (64 - kBits);
  }

  std::unique_ptr<std::atomic<std::uintptr_t>[]> slots_;
  std::size_t used_ = 0;  // removed ones too
  std::atomic<bool> is_full_{false};
  std::atomic<void (*)()> ask_{nullptr};
  std::atomic<bool> is_asked_{false};
  std::atomic<std::uint32_t> questions_{0};
};

// One for the process; lives as long.
NamedModules& named_modules();

}  // namespace gpumemprof::capture
