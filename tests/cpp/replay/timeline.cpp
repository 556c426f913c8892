#include "replay/timeline.h"

namespace gpumemprof::test {
namespace {

using Field = std::uint64_t MemoryTotals::*;

// Adds bytes from the event `birth` up to, but not including, `death`.
void add_lifetime(std::vector<MemoryTotals>& changes, Field field, std::uint32_t birth,
                  std::uint32_t death, std::uint64_t bytes) {
  const std::size_t first = birth == kNoEvent ? 0 : birth;
  if (first < changes.size()) changes[first].*field += bytes;
  if (death < changes.size()) changes[death].*field -= bytes;
}

}  // namespace

std::vector<MemoryTotals> timeline_of(const DeviceRecord& record) {
  std::vector<MemoryTotals> totals(record.events.size());
  const AllocationColumns& blocks = record.allocations;
  for (std::size_t row = 0; row < blocks.size(); ++row) {
    const std::uint32_t birth = blocks.alloc_event[row];
    const std::uint32_t completed = blocks.free_completed_event[row];
    add_lifetime(totals, &MemoryTotals::allocated_bytes, birth, blocks.free_requested_event[row],
                 blocks.size_bytes[row]);
    add_lifetime(totals, &MemoryTotals::active_bytes, birth, completed, blocks.size_bytes[row]);
    add_lifetime(totals, &MemoryTotals::requested_bytes, birth, completed,
                 blocks.requested_bytes[row]);
  }
  const SegmentColumns& segments = record.segments;
  for (std::size_t row = 0; row < segments.size(); ++row) {
    add_lifetime(totals, &MemoryTotals::reserved_bytes, segments.birth_event[row],
                 segments.death_event[row], segments.size_bytes[row]);
  }
  for (std::size_t event = 1; event < totals.size(); ++event) {
    for (const Field field : {&MemoryTotals::allocated_bytes, &MemoryTotals::active_bytes,
                              &MemoryTotals::reserved_bytes, &MemoryTotals::requested_bytes}) {
      totals[event].*field += totals[event - 1].*field;
    }
  }
  return totals;
}

std::uint64_t inactive_split_bytes_at(const DeviceRecord& record, std::uint32_t event) {
  std::vector<std::uint64_t> active(record.segments.size());
  for (std::size_t row = 0; row < record.allocations.size(); ++row) {
    if (record.allocations.is_active_at(row, Moment::after(event))) {
      active[record.allocations.segment[row].index] += record.allocations.size_bytes[row];
    }
  }
  std::uint64_t bytes = 0;
  for (std::size_t row = 0; row < record.segments.size(); ++row) {
    const bool counts = record.segments.is_reserved_at(row, Moment::after(event)) &&
                        record.segments.is_expandable[row] == 0;
    if (counts && active[row] > 0) bytes += record.segments.size_bytes[row] - active[row];
  }
  return bytes;
}

std::uint64_t segments_at(const DeviceRecord& record, std::uint32_t event) {
  std::uint64_t count = 0;
  for (std::size_t row = 0; row < record.segments.size(); ++row) {
    if (record.segments.is_reserved_at(row, Moment::after(event)) &&
        record.segments.is_expandable[row] == 0)
      ++count;
  }
  return count;
}

}  // namespace gpumemprof::test
