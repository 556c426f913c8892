// SpinLock: for allocator callbacks, which must not block in the kernel.
//
// The holder executes a few dozen instructions, calls nothing that may block, and takes no other
// lock.
#pragma once

#include <atomic>
#include <thread>

namespace gpumemprof::capture {

class SpinLock {
 public:
  void lock() {
    if (is_held_.exchange(true, std::memory_order_acquire)) [[unlikely]]
      wait();
  }
  void unlock() { is_held_.store(false, std::memory_order_release); }

 private:
  // Spins before a waiter yields: the holder may have been descheduled.
  static constexpr int kSpins = 200;

  [[gnu::noinline]] void wait() {
    int spins = 0;
    do {
      while (is_held_.load(std::memory_order_relaxed)) {
        if (++spins % kSpins == 0) std::this_thread::yield();
      }
    } while (is_held_.exchange(true, std::memory_order_acquire));
  }

  std::atomic<bool> is_held_{false};
};

}  // namespace gpumemprof::capture
