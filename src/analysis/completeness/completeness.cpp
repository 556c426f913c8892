#include "analysis/completeness/completeness.h"

#include <algorithm>

namespace gpumemprof {
namespace {

// The origin of the times reported for a device.
std::int64_t first_time(const DeviceRecord& record) {
  return record.events.empty() ? kUnknownTime : record.events.time_ns[0];
}

// Rows that only lead from the state before missing chapters to the state after them.
void leave_out_bridges(const DeviceRecord& record, EventCounts& rows) {
  EventCounts bridging;
  for (const LostEvents& lost : record.lost_events) {
    if (!lost.is_of_chapters) continue;
    const std::size_t end = std::min<std::size_t>(lost.end_event, record.events.size());
    for (std::size_t row = lost.before_event; row < end; ++row)
      bridging.add(record.events.action[row]);
  }
  rows.allocations -= bridging.allocations;
  rows.frees -= bridging.frees;
  rows.others -= bridging.others;
}

EventCounts recorded_events(const Store& store) {
  EventCounts rows;
  for (const auto& record : store.devices()) {
    for (const Action action : record->events.action) rows.add(action);
    leave_out_bridges(*record, rows);
  }
  // A free of a CPU tensor has two rows but is one event: nothing else happens to it.
  if (store.facts().kind() == DeviceKind::cpu) rows.others = 0;
  return rows;
}

std::int64_t since(std::int64_t start_ns, std::int64_t time_ns) {
  if (start_ns == kUnknownTime || time_ns == kUnknownTime) return kUnknownTime;
  return std::max<std::int64_t>(time_ns - start_ns, 0);
}

// Files of version 2 and earlier have no time for a loss: use that of the event after it.
std::int64_t time_of(const DeviceRecord& record, const LostEvents& lost) {
  if (lost.first_time_ns != kUnknownTime) return lost.first_time_ns;
  const auto& times = record.events.time_ns;
  return lost.before_event < times.size() ? times[lost.before_event] : kUnknownTime;
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

void add_lost_periods(const Store& store, Completeness& found) {
  for (const auto& record : store.devices()) {
    const std::int64_t start_ns = first_time(*record);
    for (const LostEvents& lost : record->lost_events) {
      LostPeriod period;
      period.device = store.device_name(record->device);
      period.from_event = lost.before_event;
      period.to_event = std::max(lost.end_event, lost.before_event);
      const std::int64_t time_ns = time_of(*record, lost);
      period.from_ns = since(start_ns, time_ns);
      period.to_ns = since(start_ns, std::max(lost.last_time_ns, time_ns));
      period.allocations = lost.allocations;
      period.frees = lost.frees;
      period.is_summarised = lost.is_bridged;
      if (lost.count == LostEvents::kUnknownCount) {
        found.was_paused = true;
      } else if (lost.is_bridged) {
        period.events = lost.count;
        found.summarised +=
            {lost.allocations, lost.frees, lost.count - lost.allocations - lost.frees};
      } else {
        period.events = lost.count;
        found.least_lost += lost.count;
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
  add_lost_periods(store, found);
  if (!store.origin().ending) return found;
  const Ending& ending = *store.origin().ending;
  found.is_recording = true;
  found.is_closed = ending.is_closed;
  found.reason = ending.reason;
  found.problem = ending.problem;
  add_counts(ending, found);
  found.chapters = store.origin().chapters;
  const auto lost = std::ranges::find(found.lost_periods, false, &LostPeriod::is_summarised);
  if (lost != found.lost_periods.end()) {
    found.exact_until_ns = lost->from_ns;
  } else if (!found.problem.empty()) {
    found.exact_until_ns = duration_of(store);
  }
  return found;
}

}  // namespace gpumemprof
