#include "sim/limit.h"

#include <algorithm>

#include "base/error.h"

namespace gpumemprof::sim {
namespace {

class LimitFinder {
 public:
  LimitFinder(const RecordedRun& run, const AllocatorSettings& settings)
      : events_(*run.events), first_event_(run.first_event), settings_(settings) {
    for (const SegmentState& segment : run.start.segments) reserved_bytes_ += segment.size_bytes;
    low_bytes_ = reserved_bytes_;
    before_fresh_bytes_ = before_release_bytes_ = reserved_bytes_;
  }

  std::optional<InferredLimit> find() {
    for (std::size_t row = first_event_; row < events_.size(); ++row) read(row);
    if (event_ == kNoEvent) return {};
    InferredLimit inferred;
    inferred.low_bytes = low_bytes_;
    inferred.high_bytes = std::max(high_bytes_, low_bytes_);
    inferred.event = event_;
    inferred.is_from_oom = is_from_oom_;
    if (device_bytes_ != kNoLimit) {
      inferred.limit.device_bytes =
          std::clamp(device_bytes_, inferred.low_bytes, inferred.high_bytes);
    } else {
      inferred.limit.allowed_bytes = inferred.high_bytes;
    }
    return inferred;
  }

 private:
  void read(std::size_t row) {
    const std::uint64_t size_bytes = events_.size_bytes[row];
    switch (events_.action[row]) {
      case Action::segment_alloc:
      case Action::segment_map:
        if (!is_growing_) before_fresh_bytes_ = reserved_bytes_;
        is_growing_ = true;
        reserved_bytes_ += size_bytes;
        break;
      case Action::segment_free:
      case Action::segment_unmap:
        if (release_row_ == kNoEvent) {
          release_row_ = static_cast<std::uint32_t>(row);
          before_release_bytes_ = reserved_bytes_;
        }
        reserved_bytes_ -= std::min(size_bytes, reserved_bytes_);
        break;
      case Action::alloc:
        read_success(row, segment_bytes_for(settings_.round_size(size_bytes), settings_));
        forget_burst();
        break;
      case Action::oom:
        read_oom(row, segment_bytes_for(size_bytes, settings_));
        forget_burst();
        break;
      case Action::free_requested:
        forget_burst();
        break;
      default:
        break;
    }
  }

  void forget_burst() {
    is_growing_ = false;
    release_row_ = kNoEvent;
  }

  void read_success(std::size_t row, std::uint64_t segment_bytes) {
    // The limit is checked with the whole segment even where only pages were missing.
    if (is_growing_) low_bytes_ = std::max(low_bytes_, before_fresh_bytes_ + segment_bytes);
    if (!is_growing_ || release_row_ == kNoEvent) return;
    // Garbage collection and oversize blocks are returned for reasons other than the limit of one
    // request.
    if (settings_.garbage_collection_threshold > 0 || settings_.max_split_bytes != kNoSplitLimit)
      return;
    if (events_.stack[row].is_none() || events_.stack[release_row_] != events_.stack[row]) return;
    prove(row, before_release_bytes_ + segment_bytes, false);
  }

  void read_oom(std::size_t row, std::uint64_t segment_bytes) {
    prove(row, reserved_bytes_ + segment_bytes, true);
    const std::uint64_t device_free_bytes = events_.address[row];
    if (device_free_bytes < segment_bytes)
      device_bytes_ = std::min(device_bytes_, reserved_bytes_ + device_free_bytes);
  }

  void prove(std::size_t row, std::uint64_t too_much_bytes, bool is_oom) {
    high_bytes_ = std::min(high_bytes_, too_much_bytes - 1);
    if (event_ != kNoEvent) return;
    event_ = static_cast<std::uint32_t>(row);
    is_from_oom_ = is_oom;
  }

  const EventColumns& events_;
  std::uint32_t first_event_;
  const AllocatorSettings& settings_;
  std::uint64_t reserved_bytes_ = 0;
  std::uint64_t before_fresh_bytes_ = 0;
  std::uint64_t before_release_bytes_ = 0;
  std::uint64_t low_bytes_ = 0;
  std::uint64_t high_bytes_ = kNoLimit;
  std::uint64_t device_bytes_ = kNoLimit;
  std::uint32_t release_row_ = kNoEvent;
  std::uint32_t event_ = kNoEvent;
  bool is_growing_ = false;
  bool is_from_oom_ = false;
};

}  // namespace

std::optional<InferredLimit> infer_limit(const RecordedRun& run,
                                         const AllocatorSettings& settings) {
  GMP_CHECK(run.events != nullptr);
  return LimitFinder(run, settings).find();
}

}  // namespace gpumemprof::sim
