// FirstAllocation: whether a recording has seen an allocation yet, for callers that wait for one.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace gpumemprof::capture {

class FirstAllocation {
 public:
  void set_seen() {
    const std::lock_guard lock(mutex_);
    is_seen_ = true;
    wakes_.notify_all();
  }
  // The recording ends: no allocation will come any more.
  void end() {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
    wakes_.notify_all();
  }
  // False: none came within that time, or none will.
  bool wait(std::chrono::milliseconds most) {
    std::unique_lock lock(mutex_);
    wakes_.wait_for(lock, most, [&] { return is_seen_ || is_over_; });
    return is_seen_ && !is_over_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable wakes_;
  bool is_seen_ = false;
  bool is_over_ = false;
};

}  // namespace gpumemprof::capture
