#include "analysis/card_usage/step_pool.h"

#include <algorithm>

namespace gpumemprof {
namespace {

// Reserved memory changes by `bytes` with this event; 0 stands for what was there before it, too.
struct ReservedChange {
  std::uint32_t event = 0;
  std::int64_t bytes = 0;
};

std::vector<ReservedChange> reserved_changes(const SegmentColumns& segments) {
  std::vector<ReservedChange> changes;
  changes.reserve(2 * segments.size());
  for (std::size_t row = 0; row < segments.size(); ++row) {
    const auto bytes = static_cast<std::int64_t>(segments.size_bytes[row]);
    const std::uint32_t birth = segments.birth_event[row];
    changes.push_back({birth == kNoEvent ? 0 : birth, bytes});
    if (segments.death_event[row] != kNoEvent)
      changes.push_back({segments.death_event[row], -bytes});
  }
  std::ranges::stable_sort(changes, {}, &ReservedChange::event);
  return changes;
}

void raise(std::optional<std::uint64_t>& most, std::uint64_t bytes) {
  most = std::max(most.value_or(0), bytes);
}

// Walks the changes of the pool and the samples of the card side by side, in order of events.
class PoolWalk {
 public:
  PoolWalk(const DeviceRecord& record, const std::vector<DeviceSample>& samples)
      : changes_(reserved_changes(record.segments)) {
    for (const DeviceSample& sample : samples) {
      if (sample.device == record.device && sample.before_event != kNoEvent)
        samples_.push_back(sample);
    }
  }

  // The events from where it stands up to `last`.
  StepPool pass(std::uint32_t last, PoolOverSteps& found) {
    StepPool step{reserved(), outside_};
    while (true) {
      const bool has_change = change_ < changes_.size() && changes_[change_].event <= last;
      const bool has_sample = sample_ < samples_.size() && samples_[sample_].before_event <= last;
      if (!has_change && !has_sample) return step;
      // A sample was taken before the event of its number.
      if (has_sample &&
          (!has_change || samples_[sample_].before_event <= changes_[change_].event)) {
        look(samples_[sample_++], step, found);
      } else {
        now_ += changes_[change_++].bytes;
        step.reserved_bytes = std::max(step.reserved_bytes, reserved());
      }
    }
  }

 private:
  [[nodiscard]] std::uint64_t reserved() const {
    return static_cast<std::uint64_t>(std::max<std::int64_t>(now_, 0));
  }

  void look(const DeviceSample& sample, StepPool& step, PoolOverSteps& found) {
    if (sample.process_bytes != kUnknownBytes) {
      outside_ = sample.process_bytes - std::min(reserved(), sample.process_bytes);
      raise(step.outside_bytes, *outside_);
      raise(found.most_outside_bytes, *outside_);
    }
    if (sample.total_bytes == kUnknownBytes || sample.used_bytes == kUnknownBytes) return;
    const std::uint64_t firmware =
        sample.firmware_bytes == kUnknownBytes ? 0 : sample.firmware_bytes;
    const std::uint64_t taken = std::min(sample.used_bytes + firmware, sample.total_bytes);
    const std::uint64_t free = sample.total_bytes - taken;
    found.least_free_bytes = std::min(found.least_free_bytes.value_or(free), free);
  }

  std::vector<ReservedChange> changes_;
  std::vector<DeviceSample> samples_;
  std::size_t change_ = 0;
  std::size_t sample_ = 0;
  std::int64_t now_ = 0;
  std::optional<std::uint64_t> outside_;  // at the last sample
};

}  // namespace

PoolOverSteps pool_over_steps(const DeviceRecord& record, const std::vector<DeviceSample>& samples,
                              const std::vector<StepFigures>& steps) {
  PoolOverSteps found;
  found.steps.reserve(steps.size());
  PoolWalk walk(record, samples);
  for (const StepFigures& step : steps) found.steps.push_back(walk.pass(step.last_event, found));
  walk.pass(kNoEvent - 1, found);  // samples after the last step
  return found;
}

}  // namespace gpumemprof
