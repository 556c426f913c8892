#include "analysis/timeline/overlays.h"

#include <algorithm>

#include "analysis/whatif/recorded_device.h"
#include "sim/limit.h"

namespace gpumemprof {
namespace {

void find_ooms(const DeviceRecord& record, const Timeline& timeline, std::size_t most,
               TimelineOverlays& overlays) {
  for (std::uint32_t event = 0; event < record.events.size(); ++event) {
    if (record.events.action[event] != Action::oom) continue;
    if (overlays.ooms.size() == most) {
      ++overlays.ooms_left_out;
      continue;
    }
    overlays.ooms.push_back(oom_at_event(record, timeline, event));
  }
}

void find_bounds(const Store& store, const DeviceRecord& record, const DeviceReplay& replay,
                 TimelineOverlays& overlays) {
  const DeviceFacts& facts = store.facts().device(record.device);
  overlays.card_bytes = facts.total_bytes;
  for (const DeviceSample& sample : store.samples()) {
    if (sample.device == record.device && sample.total_bytes != kUnknownBytes &&
        !overlays.card_bytes)
      overlays.card_bytes = sample.total_bytes;
  }
  overlays.limit_bytes = stated_limit(facts, overlays.card_bytes);
  if (overlays.card_bytes && facts.memory_fraction) return;
  if (replay.counters.ooms == 0 || record.device == kHostDevice) return;
  const RecordedDevice recorded(store, record, replay);
  const auto inferred = sim::infer_limit(recorded.run(), store.settings());
  if (!inferred) return;
  const std::uint64_t bytes = std::min(inferred->limit.allowed_bytes, inferred->limit.device_bytes);
  if (bytes == sim::kNoLimit) return;
  overlays.limit_bytes = bytes;
  overlays.is_limit_inferred = true;
}

}  // namespace

OverlayOom oom_at_event(const DeviceRecord& record, const Timeline& timeline, std::uint32_t event) {
  OverlayOom oom;
  oom.position = position_after(event);
  if (timeline.times().is_known()) oom.time_ns = timeline.times().of_event(event);
  oom.wanted_bytes = record.events.size_bytes[event];
  oom.stack = record.events.stack[event];
  oom.allocated_bytes = timeline.allocated().bytes_at(oom.position);
  oom.reserved_bytes = timeline.reserved_at(oom.position);
  return oom;
}

std::optional<std::uint64_t> stated_limit(const DeviceFacts& facts,
                                          std::optional<std::uint64_t> card_bytes) {
  if (!card_bytes || !facts.memory_fraction) return std::nullopt;
  const double share = *facts.memory_fraction;
  if (share <= 0 || share >= 1) return std::nullopt;
  return static_cast<std::uint64_t>(share * static_cast<double>(*card_bytes));
}

TimelineOverlays find_overlays(const Store& store, const DeviceRecord& record,
                               const DeviceReplay& replay, const Timeline& timeline,
                               const TimelineOverlaysOptions& options) {
  TimelineOverlays overlays;
  find_ooms(record, timeline, options.most_ooms, overlays);
  find_bounds(store, record, replay, overlays);
  return overlays;
}

}  // namespace gpumemprof
