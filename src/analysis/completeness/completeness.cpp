#include "analysis/completeness/completeness.h"

#include <algorithm>

namespace gpumemprof {
namespace {

// The origin of the times reported for a device.
std::int64_t first_time(const DeviceRecord& record) {
  return record.events.empty() ? kUnknownTime : record.events.time_ns[0];
}

EventCounts recorded_events(const Store& store) {
  EventCounts rows;
  for (const auto& record : store.devices()) {
    for (const Action action : record->events.action) rows.add(action);
  }
  // A free of a CPU tensor has two rows but is one event: nothing else happens to it.
  if (store.origin().device_type == "cpu") rows.others = 0;
  return rows;
}

std::int64_t since(std::int64_t start_ns, std::int64_t time_ns) {
  if (start_ns == kUnknownTime || time_ns == kUnknownTime) return kUnknownTime;
  return std::max<std::int64_t>(time_ns - start_ns, 0);
}

// Files of version 2 and earlier have no time for a gap: use that of the event after it.
std::int64_t time_of(const DeviceRecord& record, const Gap& gap) {
  if (gap.first_time_ns != kUnknownTime) return gap.first_time_ns;
  const auto& times = record.events.time_ns;
  return gap.before_event < times.size() ? times[gap.before_event] : kUnknownTime;
}

// The duration of the longest device history.
std::int64_t duration_of(const Store& store) {
  std::int64_t longest = kUnknownTime;
  for (const auto& record : store.devices()) {
    if (record->events.empty()) continue;
    const std::int64_t last_ns = record->events.time_ns[record->events.size() - 1];
    longest = std::max(longest, since(first_time(*record), last_ns));
  }
  return longest;
}

void add_gaps(const Store& store, Completeness& found) {
  for (const auto& record : store.devices()) {
    const std::int64_t start_ns = first_time(*record);
    for (const Gap& gap : record->gaps) {
      LostEvents lost;
      lost.device = store.device_name(record->device);
      lost.from_event = gap.before_event;
      lost.to_event = std::max(gap.end_event, gap.before_event);
      const std::int64_t time_ns = time_of(*record, gap);
      lost.from_ns = since(start_ns, time_ns);
      lost.to_ns = since(start_ns, std::max(gap.last_time_ns, time_ns));
      lost.allocations = gap.lost_allocations;
      lost.frees = gap.lost_frees;
      if (gap.lost_events == Gap::kUnknownCount) {
        found.was_paused = true;
      } else {
        lost.events = gap.lost_events;
        found.least_lost += gap.lost_events;
      }
      found.gaps.push_back(std::move(lost));
    }
  }
  std::ranges::stable_sort(found.gaps, {}, &LostEvents::from_ns);
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
  found.recorded.frees -= std::min(found.recorded.frees, found.inferred_frees);
  found.least_lost = std::max(found.least_lost, lost.total());
  if (!ending.are_counts_exact) return;
  found.made = made;
  found.lost = lost;
}

}  // namespace

Completeness find_completeness(const Store& store) {
  Completeness found;
  found.recorded = recorded_events(store);
  add_gaps(store, found);
  if (!store.origin().ending) return found;
  const Ending& ending = *store.origin().ending;
  found.is_recording = true;
  found.is_closed = ending.is_closed;
  found.reason = ending.reason;
  found.problem = ending.problem;
  add_counts(ending, found);
  if (!found.gaps.empty()) {
    found.exact_until_ns = found.gaps.front().from_ns;
  } else if (!found.problem.empty()) {
    found.exact_until_ns = duration_of(store);
  }
  return found;
}

}  // namespace gpumemprof
