// SpinLock: for allocator callbacks, which must not wait for the system.
//
// Whoever holds it does some dozen instructions, calls nothing that may wait, and takes no other
// lock.
#pragma once

#include <atomic>

namespace gpumemprof::capture {

class SpinLock {
 public:
  void lock();
  void unlock() { is_held_.store(false, std::memory_order_release); }
  [[nodiscard]] bool is_held() const { return is_held_.load(std::memory_order_acquire); }

 private:
  std::atomic<bool> is_held_{false};
};

}  // namespace gpumemprof::capture
