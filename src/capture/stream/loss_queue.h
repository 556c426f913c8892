// LossQueue: the logged losses (losses.h) on their way to the drain, oldest first, so that each is
// taken at its place among the records and commands. For the drain thread alone.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "capture/stream/losses.h"

namespace gpumemprof::capture {

class LossQueue {
 public:
  // It must outlive this.
  explicit LossQueue(Losses& losses) : losses_(losses) {}

  // Moves what was logged since the last call to this queue.
  void collect() {
    if (losses_.logged() != collected_count_) [[unlikely]]
      collect_new();
  }
  [[nodiscard]] bool empty() const { return entries_.empty(); }
  // The next one, if it happened before the record at this position of the ring.
  std::optional<LossEntry> next_before(std::uint64_t position) {
    if (entries_.empty() || entries_.front().position > position) return std::nullopt;
    return take_front();
  }
  // The next one, if it is among the first `count` that were ever logged.
  std::optional<LossEntry> next_of_first(std::uint64_t count) {
    if (collected_count_ < count) collect_new();
    if (entries_.empty() || taken_count_ >= count) return std::nullopt;
    return take_front();
  }

 private:
  void collect_new() {
    fresh_.clear();
    losses_.collect(fresh_);
    collected_count_ += fresh_.size();
    entries_.insert(entries_.end(), fresh_.begin(), fresh_.end());
  }
  LossEntry take_front() {
    const LossEntry entry = entries_.front();
    entries_.pop_front();
    ++taken_count_;
    return entry;
  }

  Losses& losses_;
  std::deque<LossEntry> entries_;
  std::vector<LossEntry> fresh_;  // kept for its memory
  std::uint64_t collected_count_ = 0;
  std::uint64_t taken_count_ = 0;
};

}  // namespace gpumemprof::capture
