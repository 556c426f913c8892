#include "sim/limit.h"

#include <algorithm>

#include "base/error.h"
#include "sim/limit_finder.h"

namespace gpumemprof::sim {

LimitFinder::LimitFinder(std::span<const SegmentState> start, const AllocatorSettings& settings)
    : settings_(settings) {
  for (const SegmentState& segment : start) reserved_bytes_ += segment.size_bytes;
  low_bytes_ = reserved_bytes_;
  before_fresh_bytes_ = before_release_bytes_ = reserved_bytes_;
}

std::optional<InferredLimit> LimitFinder::found() const {
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

void LimitFinder::read(const EventColumns& events, std::size_t row, std::uint32_t number) {
  const std::uint64_t size_bytes = events.size_bytes[row];
  switch (events.action[row]) {
    case Action::segment_alloc:
    case Action::segment_map:
      if (!is_growing_) before_fresh_bytes_ = reserved_bytes_;
      is_growing_ = true;
      reserved_bytes_ += size_bytes;
      break;
    case Action::segment_free:
    case Action::segment_unmap:
      if (!release_stack_) {
        release_stack_ = events.stack[row];
        before_release_bytes_ = reserved_bytes_;
      }
      reserved_bytes_ -= std::min(size_bytes, reserved_bytes_);
      break;
    case Action::alloc:
      if (is_growing_)
        read_success(events.stack[row], number,
                     segment_bytes_for(settings_.round_size(size_bytes), settings_));
      forget_burst();
      break;
    case Action::oom:
      read_oom(events.address[row], number, segment_bytes_for(size_bytes, settings_));
      forget_burst();
      break;
    case Action::free_requested:
      forget_burst();
      break;
    default:
      break;
  }
}

void LimitFinder::forget_burst() {
  is_growing_ = false;
  release_stack_.reset();
}

// Of a request that took memory from the device.
void LimitFinder::read_success(StackId stack, std::uint32_t number, std::uint64_t segment_bytes) {
  // The limit is checked with the whole segment even where only pages were missing.
  low_bytes_ = std::max(low_bytes_, before_fresh_bytes_ + segment_bytes);
  if (!release_stack_) return;
  // Garbage collection and oversize blocks are returned for reasons other than the limit of one
  // request.
  if (settings_.garbage_collection_threshold > 0 || settings_.max_split_bytes != kNoSplitLimit)
    return;
  if (stack.is_none() || *release_stack_ != stack) return;
  prove(number, before_release_bytes_ + segment_bytes, false);
}

void LimitFinder::read_oom(std::uint64_t device_free_bytes, std::uint32_t number,
                           std::uint64_t segment_bytes) {
  prove(number, reserved_bytes_ + segment_bytes, true);
  if (device_free_bytes < segment_bytes)
    device_bytes_ = std::min(device_bytes_, reserved_bytes_ + device_free_bytes);
}

void LimitFinder::prove(std::uint32_t number, std::uint64_t too_much_bytes, bool is_oom) {
  high_bytes_ = std::min(high_bytes_, too_much_bytes - 1);
  if (event_ != kNoEvent) return;
  event_ = number;
  is_from_oom_ = is_oom;
}

std::optional<InferredLimit> infer_limit(const RecordedRun& run,
                                         const AllocatorSettings& settings) {
  GMP_CHECK(run.events != nullptr);
  LimitFinder finder(run.start.segments, settings);
  for (std::size_t row = run.first_event; row < run.events->size(); ++row)
    finder.read(*run.events, row, static_cast<std::uint32_t>(row));
  return finder.found();
}

}  // namespace gpumemprof::sim
