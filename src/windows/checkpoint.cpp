#include "windows/checkpoint.h"

#include <algorithm>

namespace gpumemprof {

DeviceCheckpoint checkpoint_before(const KeptRun& run, const LocalView& view, std::uint32_t event) {
  const DeviceRecord& record = view.record();
  DeviceCheckpoint found;
  found.device = record.device;
  found.event = event;
  const Moment moment = event == 0 ? Moment::start() : Moment::after(run.place_of(event - 1));
  const SegmentColumns& segments = record.segments;
  for (std::size_t row = 0; row < segments.size(); ++row) {
    if (!segments.is_reserved_at(row, moment)) continue;
    found.segments.push_back({record.device, segments.address[row], segments.size_bytes[row],
                              segments.stream[row], segments.pool[row], segments.is_small[row] != 0,
                              segments.is_expandable[row] != 0, segments.stack[row]});
  }
  std::ranges::sort(found.segments, {}, &SegmentState::address);
  const AllocationColumns& rows = record.allocations;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    if (!rows.is_active_at(row, moment)) continue;
    OldAllocation old;
    old.address = rows.address[row];
    old.size_bytes = rows.size_bytes[row];
    old.requested_bytes = rows.requested_bytes[row];
    old.birth_event = view.birth(row);
    old.is_pending = !rows.is_allocated_at(row, moment);
    old.stream = rows.stream[row];
    old.stack = rows.stack[row];
    if (rows.alloc_event[row] != kNoEvent) {
      const Event birth = record.events.row(rows.alloc_event[row]);
      old.time_ns = birth.time_ns;
      old.compile_context = birth.compile_context;
      old.user_metadata = birth.user_metadata;
      old.pool = birth.pool;
      old.forward_stack = birth.forward_stack;
      old.module = birth.module;
    }
    old.source = record.labels.source[row];
    old.flags = record.labels.flags[row];
    if (!record.labels.name.empty()) old.name = record.labels.name[row];
    found.allocations.push_back(old);
  }
  // kNoEvent, the largest number, stands for the oldest. Rows are in this order but for those that
  // were listed late.
  const auto age = [](const OldAllocation& old) { return old.birth_event + 1U; };
  if (!std::ranges::is_sorted(found.allocations, {}, age))
    std::ranges::stable_sort(found.allocations, {}, age);
  return found;
}

}  // namespace gpumemprof
