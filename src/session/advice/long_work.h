// LongWork: an answer that takes a while, as those see it who wait for it: what is done, how far it
// is, and what is known so far. Whoever computes it asks from time to time whether anyone still
// waits.
//
// Safe to use from any number of threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>

#include "base/error.h"

namespace gpumemprof {

class LongWork {
 public:
  LongWork() = default;
  LongWork(const LongWork&) = delete;
  LongWork& operator=(const LongWork&) = delete;

  struct Progress {
    std::string what;  // "trying remedies"
    std::uint64_t done = 0;
    std::uint64_t total = 0;  // 0: not known
    std::string so_far;       // JSON, part of the answer; empty: nothing yet
  };
  [[nodiscard]] Progress progress() const {
    const std::scoped_lock lock(mutex_);
    return progress_;
  }
  void begin(std::string what) {
    const std::scoped_lock lock(mutex_);
    progress_.what = std::move(what);
    progress_.done = progress_.total = 0;
  }
  void update(std::uint64_t done, std::uint64_t total) {
    const std::scoped_lock lock(mutex_);
    progress_.done = done;
    progress_.total = total;
  }
  void show(std::string so_far) {
    const std::scoped_lock lock(mutex_);
    progress_.so_far = std::move(so_far);
  }

  void give_up() { is_given_up_ = true; }
  [[nodiscard]] bool is_given_up() const { return is_given_up_; }
  [[nodiscard]] static Error given_up() {
    return {ErrorCode::usage, "nobody waited for this answer any more", "", "ask again"};
  }

 private:
  mutable std::mutex mutex_;
  Progress progress_;
  std::atomic<bool> is_given_up_ = false;
};

}  // namespace gpumemprof
