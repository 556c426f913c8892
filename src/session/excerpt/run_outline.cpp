#include "session/excerpt/run_outline.h"

#include <algorithm>

namespace gpumemprof {
DeviceOutline SurveyedOutline::device(DeviceIndex device) const {
  const Survey::Result& found = *run_.found(device);
  return {run_.store().device_name(device),
          found.events,
          found.spans.empty() ? 0 : found.spans.back().step,
          found.replay.peak_event,
          found.replay.peak.allocated_bytes,
          found.extent.first_time_ns};
}

std::uint32_t SurveyedOutline::step_at(DeviceIndex device, std::uint32_t event) const {
  return gpumemprof::step_at(run_.found(device)->spans, event);
}

std::uint32_t SurveyedOutline::begin_of_step(DeviceIndex device, std::uint32_t step) const {
  const Survey::Result& found = *run_.found(device);
  const auto begin = std::ranges::lower_bound(found.spans, step, {}, &PhaseSpan::step);
  return begin == found.spans.end() ? found.events : begin->first_event;
}

DeviceOutline IndexOutline::device(DeviceIndex device) const {
  DeviceOutline outline;
  const std::vector<std::uint32_t>& checkpoints = index_.checkpoints(device);
  const auto found = std::ranges::find(index_.at_peak().devices, device, &DeviceOverview::device);
  outline.name = found->name;
  outline.events = checkpoints.back();
  outline.last_step = step_before(device, checkpoints.size() - 1);
  outline.peak_event = found->replay.peak_event;
  outline.peak_bytes = found->replay.peak.allocated_bytes;
  const When& peak = found->peak_when;
  if (peak.time_ns != kUnknownTime && peak.since_start_ns != kUnknownTime)
    outline.first_time_ns = peak.time_ns - peak.since_start_ns;
  if (peak.event != kNoEvent || outline.events == 0) return outline;
  const Result<Pyramid> pyramid = index_.pyramid(device);
  if (!pyramid) is_damaged_ = true;
  if (pyramid) outline.first_time_ns = pyramid.value().buckets.front().first_time_ns;
  return outline;
}

const IndexOutline::Spans& IndexOutline::spans(DeviceIndex device, std::size_t checkpoint) const {
  const auto [known, is_new] = read_.try_emplace({device, checkpoint});
  if (!is_new) return known->second;
  Result<DeviceCheckpoint> state = index_.checkpoint(device, checkpoint);
  if (!state || !std::ranges::is_sorted(state.value().spans, {}, &PhaseSpan::first_event) ||
      !std::ranges::is_sorted(state.value().spans, {}, &PhaseSpan::step)) {
    is_damaged_ = true;
  } else {
    known->second = std::move(state.value().spans);
  }
  return known->second;
}

std::uint32_t IndexOutline::step_before(DeviceIndex device, std::size_t checkpoint) const {
  // Checkpoints at the same event have no spans between them.
  for (; checkpoint > 0; --checkpoint) {
    const Spans& found = spans(device, checkpoint);
    if (!found.empty()) return found.back().step;
  }
  return 0;
}

std::uint32_t IndexOutline::step_at(DeviceIndex device, std::uint32_t event) const {
  const std::vector<std::uint32_t>& checkpoints = index_.checkpoints(device);
  const auto behind = std::ranges::upper_bound(checkpoints, event);
  if (behind == checkpoints.end()) return step_before(device, checkpoints.size() - 1);
  return gpumemprof::step_at(spans(device, static_cast<std::size_t>(behind - checkpoints.begin())),
                             event);
}

std::uint32_t IndexOutline::begin_of_step(DeviceIndex device, std::uint32_t step) const {
  const std::vector<std::uint32_t>& checkpoints = index_.checkpoints(device);
  std::size_t low = 1;
  std::size_t high = checkpoints.size();
  while (low < high) {
    const std::size_t middle = low + (high - low) / 2;
    if (step_before(device, middle) >= step) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  if (low == checkpoints.size()) return checkpoints.back();
  const Spans& found = spans(device, low);
  const auto begin = std::ranges::lower_bound(found, step, {}, &PhaseSpan::step);
  return begin == found.end() ? checkpoints.back() : begin->first_event;
}

}  // namespace gpumemprof
