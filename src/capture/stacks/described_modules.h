// DescribedModules: which modules Python has described, for callbacks to check, and a way to ask
// for those it has not.
//
// A module is best named during its first call: later it may be gone, and another one may be at its
// address. So a callback that finds an unknown one requests a call into Python's main thread soon,
// which then finds the module on its stack. Written with the GIL held, read by any thread, without
// waiting.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

namespace gpumemprof::capture {

class DescribedModules {
 public:
  DescribedModules();

  void add(std::uintptr_t address);
  void remove(std::uintptr_t address);
  [[nodiscard]] bool has(std::uintptr_t address) const;

  // `ask` requests a call into Python; it is called from any thread and never waits. nullptr:
  // names are not asked for. Forgets all names.
  void set_asker(void (*ask)());
  // An object of this type at this address has no name yet.
  void ask_for(std::uintptr_t module, std::uintptr_t type);
  // Python was called, and may be asked again.
  void answered() { is_asked_.store(false, std::memory_order_release); }

 private:
  static constexpr unsigned kBits = 16;
  static constexpr std::size_t kMost = (std::size_t{1} << kBits) / 2;
  static constexpr std::uintptr_t kRemoved = 1;
  // A program that keeps creating modules must not be slowed down all the time.
  static constexpr std::uint32_t kMostQuestions = 1000;

  [[nodiscard]] static std::size_t home(std::uintptr_t address) {
    return (address * 0x9E3779B97F4A7C15ULL) >> (64 - kBits);
  }

  std::unique_ptr<std::atomic<std::uintptr_t>[]> slots_;
  std::size_t used_ = 0;  // including removed ones
  std::atomic<bool> is_full_{false};
  std::atomic<void (*)()> ask_{nullptr};
  std::atomic<bool> is_asked_{false};
  std::atomic<std::uint32_t> questions_{0};
};

// One for the process; never destroyed.
DescribedModules& described_modules();

}  // namespace gpumemprof::capture
