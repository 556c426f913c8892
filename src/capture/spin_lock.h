// SpinLock: for allocator callbacks, which must not block in the kernel.
//
// The holder executes a few dozen instructions, calls nothing that may block, and takes no other
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
