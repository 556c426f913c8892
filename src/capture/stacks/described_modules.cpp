#include "capture/stacks/described_modules.h"

namespace gpumemprof::capture {

DescribedModules::DescribedModules()
    : slots_(std::make_unique<std::atomic<std::uintptr_t>[]>(std::size_t{1} << kBits)) {}

bool DescribedModules::has(std::uintptr_t address) const {
  for (std::size_t slot = home(address);; slot = (slot + 1) & ((std::size_t{1} << kBits) - 1)) {
    const std::uintptr_t there = slots_[slot].load(std::memory_order_acquire);
    if (there == address) return true;
    if (there == 0) return false;
  }
}

void DescribedModules::add(std::uintptr_t address) {
  if (has(address)) return;
  if (used_ >= kMost) {
    is_full_.store(true, std::memory_order_relaxed);
    return;
  }
  std::size_t slot = home(address);
  for (;; slot = (slot + 1) & ((std::size_t{1} << kBits) - 1)) {
    const std::uintptr_t there = slots_[slot].load(std::memory_order_relaxed);
    if (there == 0) ++used_;
    if (there == 0 || there == kRemoved) break;
  }
  slots_[slot].store(address, std::memory_order_release);
}

void DescribedModules::remove(std::uintptr_t address) {
  for (std::size_t slot = home(address);; slot = (slot + 1) & ((std::size_t{1} << kBits) - 1)) {
    const std::uintptr_t there = slots_[slot].load(std::memory_order_relaxed);
    if (there == 0) return;
    if (there == address) return slots_[slot].store(kRemoved, std::memory_order_release);
  }
}

void DescribedModules::set_asker(void (*ask)()) {
  // Names may be stale: destroyed modules are reported only while names are asked for.
  for (std::size_t slot = 0; slot < std::size_t{1} << kBits; ++slot)
    slots_[slot].store(0, std::memory_order_relaxed);
  used_ = 0;
  is_full_.store(false, std::memory_order_relaxed);
  questions_.store(0, std::memory_order_relaxed);
  answered();
  ask_.store(ask, std::memory_order_release);
}

void DescribedModules::ask_for(std::uintptr_t module, std::uintptr_t type) {
  void (*ask)() = ask_.load(std::memory_order_acquire);
  if (ask == nullptr || is_full_.load(std::memory_order_relaxed) || has(module) || has(type))
    return;
  if (questions_.load(std::memory_order_relaxed) >= kMostQuestions ||
      is_asked_.exchange(true, std::memory_order_acq_rel))
    return;
  questions_.fetch_add(1, std::memory_order_relaxed);
  ask();
}

DescribedModules& described_modules() {
  static auto* const kModules = new DescribedModules();
  return *kModules;
}

}  // namespace gpumemprof::capture
