#include "analysis/whatif/recorded_device.h"

#include <algorithm>

#include "analysis/moment/pool_state.h"

namespace gpumemprof {
namespace {

sim::SegmentList list_of(const ListedState& state) {
  return {state.segments, state.first_block, state.blocks};
}

}  // namespace

RecordedDevice::RecordedDevice(const Store& store, const DeviceRecord& record,
                               const DeviceReplay& replay) {
  for (std::uint32_t row = 0; row < store.pool_count(); ++row) pools_.push_back(store.pool(row));
  run_.events = &record.events;
  run_.first_event = std::max(replay.exact_from_event.value_or(0), record.lead_in);
  run_.pools = pools_;
  const Moment start =
      run_.first_event == 0 ? Moment::start() : Moment::after(run_.first_event - 1);
  start_ = listed_state(record, pool_state_at(record, start));
  run_.start = list_of(start_);
  run_.has_end = replay.has_end && !record.final_state.segments.empty();
  if (run_.has_end) run_.end = list_of(record.final_state);
  find_pools(record);
  if (replay.exact_from_event == 0U && start_.segments.empty())
    counters_ = recorded_counters(replay);
  run_.counters = counters_;
}

// Which pool an event belongs to, if the trace itself does not say: that of the segment it happened
// in.
void RecordedDevice::find_pools(const DeviceRecord& record) {
  if (!record.events.pool.empty()) return;
  bool has_private_pool = false;
  for (const std::uint32_t pool : record.segments.pool) {
    has_private_pool |= pool != kNoPool && pools_[pool] != PoolId{};
  }
  if (!has_private_pool) return;
  pool_of_event_.assign(record.events.size(), kNoPool);
  // A damaged recording may name events that it does not hold.
  const auto set = [&](std::uint32_t event, std::uint32_t pool) {
    if (event < pool_of_event_.size()) pool_of_event_[event] = pool;
  };
  for (std::size_t row = 0; row < record.segments.size(); ++row) {
    set(record.segments.birth_event[row], record.segments.pool[row]);
    set(record.segments.death_event[row], record.segments.pool[row]);
  }
  const AllocationColumns& allocations = record.allocations;
  for (std::size_t row = 0; row < allocations.size(); ++row) {
    const std::uint32_t pool = record.segments.pool[allocations.segment[row].index];
    set(allocations.alloc_event[row], pool);
    set(allocations.free_requested_event[row], pool);
    set(allocations.free_completed_event[row], pool);
  }
  run_.pool_of_event = pool_of_event_;
}

std::vector<sim::NamedCounter> recorded_counters(const DeviceReplay& replay) {
  const EndState& end = replay.end;
  return {{"allocated_bytes.all.peak", replay.peak.allocated_bytes},
          {"reserved_bytes.all.peak", replay.peak_reserved_bytes},
          {"allocated_bytes.all.current", end.totals.allocated_bytes},
          {"active_bytes.all.current", end.totals.active_bytes},
          {"reserved_bytes.all.current", end.totals.reserved_bytes},
          {"requested_bytes.all.current", end.totals.requested_bytes},
          {"inactive_split_bytes.all.current", end.inactive_split_bytes},
          {"segment.all.current", end.segments},
          {"segment.all.allocated", replay.counters.segment_allocs},
          {"allocation.all.allocated", replay.counters.allocations},
          {"num_ooms", replay.counters.ooms},
          {"num_device_alloc", replay.counters.segment_allocs + replay.counters.segment_maps},
          {"num_device_free", replay.counters.segment_frees + replay.counters.segment_unmaps}};
}

}  // namespace gpumemprof
