#include "analysis/completeness/completeness.h"

#include <algorithm>

namespace gpumemprof {
namespace {

// Rows that only lead from the state before missing chapters to the state after them, or to the
// state that an excerpt begins with.
void leave_out_bridges(const DeviceRecord& record, EventCounts& rows) {
  EventCounts bridging;
  for (const LostEvents& lost : record.lost_events) {
    if (!lost.is_of_chapters) continue;
    const std::size_t end = std::min<std::size_t>(lost.end_event, record.events.size());
    for (std::size_t row = lost.before_event; row < end; ++row)
      bridging.add(record.events.action[row]);
  }
  for (std::size_t row = 0; row < std::min<std::size_t>(record.lead_in, record.events.size());
       ++row)
    bridging.add(record.events.action[row]);
  rows.allocations -= bridging.allocations;
  rows.frees -= bridging.frees;
  rows.others -= bridging.others;
}

std::int64_t since(std::int64_t start_ns, std::int64_t time_ns) {
  if (start_ns == kUnknownTime || time_ns == kUnknownTime) return kUnknownTime;
  return std::max<std::int64_t>(time_ns - start_ns, 0);
}

DeviceExtent extent_of(const DeviceRecord& record) {
  DeviceExtent extent;
  extent.device = record.device;
  for (const Action action : record.events.action) extent.rows.add(action);
  leave_out_bridges(record, extent.rows);
  extent.lost_events = record.lost_events;
  if (record.events.empty()) return extent;
  extent.first_time_ns = record.events.time_ns[0];
  extent.last_time_ns = record.events.time_ns[record.events.size() - 1];
  return extent;
}

// The duration of the longest device history.
std::int64_t duration_of(const std::vector<DeviceExtent>& devices) {
  std::int64_t longest = kUnknownTime;
  for (const DeviceExtent& device : devices)
    longest = std::max(longest, since(device.first_time_ns, device.last_time_ns));
  return longest;
}

void add_lost_periods(const Store& store, const std::vector<DeviceExtent>& devices,
                      Completeness& found) {
  for (const DeviceExtent& device : devices) {
    for (const LostEvents& lost : device.lost_events) {
      LostPeriod period;
      period.device = store.device_name(device.device);
      period.from_event = lost.before_event;
      period.to_event = std::max(lost.end_event, lost.before_event);
      const std::int64_t first_ns =
          lost.first_time_ns == kUnknownTime ? device.first_time_ns : lost.first_time_ns;
      period.from_ns = since(device.first_time_ns, first_ns);
      period.to_ns = since(device.first_time_ns, std::max(lost.last_time_ns, first_ns));
      period.allocations = lost.allocations;
      period.frees = lost.frees;
      period.is_summarised = lost.is_bridged;
      if (lost.count == LostEvents::kUnknownCount) {
        found.was_paused = true;
      } else {
        period.events = lost.count;
        if (lost.is_bridged) {
          found.summarised +=
              {lost.allocations, lost.frees, lost.count - lost.allocations - lost.frees};
        } else {
          found.least_lost += lost.count;
        }
      }
      found.lost_periods.push_back(std::move(period));
    }
  }
  std::ranges::stable_sort(found.lost_periods, {}, &LostPeriod::from_ns);
}

void add_counts(const Ending& ending, Completeness& found) {
  if (!ending.has_counts) return;
  EventCounts made;
  EventCounts lost;
  for (const DeviceCounts& counts : ending.devices) {
    made += counts.made;
    lost += counts.lost;
    found.inferred_frees += counts.inferred_frees;
  }
  // Each has two rows, as any free: requested, and completed.
  found.recorded.frees -= std::min(found.recorded.frees, found.inferred_frees);
  found.recorded.others -= std::min(found.recorded.others, found.inferred_frees);
  found.least_lost = std::max(found.least_lost, lost.total());
  if (!ending.are_counts_exact) return;
  found.made = made;
  found.lost = lost;
}

}  // namespace

Completeness find_completeness(const Store& store) {
  std::vector<DeviceExtent> devices;
  for (const auto& record : store.devices()) devices.push_back(extent_of(*record));
  return find_completeness(store, devices);
}

Completeness find_completeness(const Store& store, const std::vector<DeviceExtent>& devices) {
  Completeness found;
  for (const DeviceExtent& device : devices) found.recorded += device.rows;
  add_lost_periods(store, devices, found);
  for (const DeviceExtent& device : devices) {
    if (const auto& range = store.facts().device(device.device).excerpt)
      found.excerpts.push_back({store.device_name(device.device), *range});
  }
  if (!store.origin().ending) return found;
  const Ending& ending = *store.origin().ending;
  found.is_recording = true;
  found.is_closed = ending.is_closed;
  found.reason = ending.reason;
  found.problem = ending.problem;
  add_counts(ending, found);
  if (!ending.is_closed) {
    const ProcessFacts& process = store.facts().process();
    found.host_resident_bytes = process.host_resident_bytes;
    found.host_available_bytes = process.host_available_bytes;
    found.host_total_bytes = process.host_total_bytes;
  }
  found.chapters = store.origin().chapters;
  const auto lost = std::ranges::find(found.lost_periods, false, &LostPeriod::is_summarised);
  if (lost != found.lost_periods.end()) {
    found.exact_until_ns = lost->from_ns;
  } else if (!found.problem.empty()) {
    found.exact_until_ns = duration_of(devices);
  }
  return found;
}

}  // namespace gpumemprof
