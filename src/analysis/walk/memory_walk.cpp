#include "analysis/walk/memory_walk.h"

#include <algorithm>

namespace gpumemprof {

void MemoryWalk::start(const DeviceRecord& record) {
  live_ = {};
  for (std::uint32_t row = 0; row < record.allocations.size(); ++row) {
    if (record.allocations.alloc_event[row] != kNoEvent) continue;
    if (record.allocations.was_pending_at_start(row)) continue;
    apply(record, {row, Kind::birth});
  }
  const SegmentColumns& segments = record.segments;
  for (std::size_t row = 0; row < segments.size(); ++row) {
    if (segments.birth_event[row] == kNoEvent) live_.reserved_bytes += segments.size_bytes[row];
  }
}

void MemoryWalk::apply(const DeviceRecord& record, const Change& change) {
  const AllocationColumns& rows = record.allocations;
  const AllocationLabels& labels = record.labels;
  const bool is_labelled = labels.source.size() == rows.size();
  const MemorySource source = is_labelled ? labels.source[change.row] : MemorySource::unknown;
  const bool is_inferred = !is_labelled || !labels.is_measured(change.row);
  std::uint64_t& inferred = live_.inferred_blocks[static_cast<std::size_t>(source)];
  const std::uint64_t block = rows.size_bytes[change.row];
  const std::uint64_t requested = rows.requested_bytes[change.row];
  if (change.kind == Kind::birth) {
    live_.sources.add(source, requested, block);
    live_.allocated_bytes += block;
    inferred += is_inferred ? 1 : 0;
  } else {
    live_.sources.remove(source, requested, block);
    live_.allocated_bytes -= block;
    inferred -= is_inferred ? 1 : 0;
  }
}

// Sorted by event, by counting.
void MemoryWalk::find_changes(const WalkedPart& part) {
  const AllocationColumns& rows = part.record.allocations;
  const SegmentColumns& segments = part.record.segments;
  const auto for_each = [&](auto&& visit) {
    const auto visit_all = [&](const Column<std::uint32_t>& events, Kind kind) {
      for (std::uint32_t row = 0; row < events.size(); ++row) {
        const std::uint32_t event = events[row];
        if (event == kNoEvent || event < part.first_event) continue;
        if (event - part.first_event >= part.events) continue;
        const bool is_death = kind == Kind::death;
        if (is_death && rows.alloc_event[row] == kNoEvent && rows.was_pending_at_start(row))
          continue;
        visit(event - part.first_event, Change{row, kind});
      }
    };
    visit_all(rows.free_requested_event, Kind::death);
    visit_all(rows.alloc_event, Kind::birth);
    visit_all(segments.birth_event, Kind::grows);
    visit_all(segments.death_event, Kind::shrinks);
  };
  first_change_.assign(part.events + 1, 0);
  for_each([&](std::size_t event, const Change&) { ++first_change_[event + 1]; });
  for (std::size_t event = 0; event < part.events; ++event)
    first_change_[event + 1] += first_change_[event];
  changes_.resize(first_change_.back());
  std::vector<std::uint32_t> next(first_change_.begin(), first_change_.end() - 1);
  for_each([&](std::size_t event, const Change& change) { changes_[next[event]++] = change; });
}

}  // namespace gpumemprof
