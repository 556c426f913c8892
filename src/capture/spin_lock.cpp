#include "capture/spin_lock.h"

#include <thread>

namespace gpumemprof::capture {
namespace {

// Spins before a waiter yields: the holder may have been descheduled.
constexpr int kSpins = 200;

}  // namespace

void SpinLock::lock() {
  int spins = 0;
  while (is_held_.exchange(true, std::memory_order_acquire)) {
    while (is_held_.load(std::memory_order_relaxed)) {
      if (++spins % kSpins == 0) std::this_thread::yield();
    }
  }
}

}  // namespace gpumemprof::capture
