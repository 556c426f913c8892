#include "analysis/timeline/timeline.h"

#include <algorithm>

namespace gpumemprof {

LifetimeColumns allocated_lifetimes(const DeviceRecord& record) {
  const AllocationColumns& rows = record.allocations;
  return {rows.alloc_event.span(), rows.free_requested_event.span(), rows.size_bytes.span(),
          rows.pending_at_start.span()};
}

LifetimeColumns reserved_lifetimes(const DeviceRecord& record) {
  const SegmentColumns& rows = record.segments;
  return {rows.birth_event.span(), rows.death_event.span(), rows.size_bytes.span(), {}};
}

EventTimes::EventTimes(const EventColumns& events, std::int64_t run_start_ns)
    : run_start_ns_(run_start_ns) {
  const std::span<const std::int64_t> times = events.time_ns.span();
  if (times.size() != events.size()) return;
  if (std::find(times.begin(), times.end(), kUnknownTime) != times.end()) return;
  if (std::is_sorted(times.begin(), times.end())) {
    times_ = times;
    return;
  }
  corrected_.reserve(times.size());
  std::int64_t latest = times.front();
  for (const std::int64_t time : times) {
    latest = std::max(latest, time);
    corrected_.push_unchecked(latest);
  }
  times_ = corrected_.span();
}

Position EventTimes::position_before(std::int64_t time_ns) const {
  return static_cast<Position>(std::lower_bound(times_.begin(), times_.end(), time_ns) -
                               times_.begin());
}

GroupSums::GroupSums(const Grouping& grouping, const LiveChanges& changes,
                     const AllocationColumns& rows)
    : grouping_(grouping),
      changes_(changes),
      sizes_bytes_(rows.size_bytes.span()),
      requested_bytes_(rows.requested_bytes.span()),
      groups_(grouping.groups.size()) {
  std::vector<std::uint64_t> sums(groups_, 0);
  before_.reserve(groups_ * changes.block_count());
  for (std::size_t block = 0; block < changes.block_count(); ++block) {
    for (const std::uint64_t sum : sums) before_.push_unchecked(sum);
    const auto last = static_cast<Position>((block + 1) * LiveChanges::kBlockPositions - 1);
    changes.for_each_change_in_block(
        last, [&](std::uint32_t row, bool is_death) { apply(row, is_death, sums.data()); });
  }
}

void GroupSums::apply(std::uint32_t row, bool is_death, std::uint64_t* sums) const {
  const auto add = [&](std::size_t group, std::uint64_t bytes) {
    sums[group] = is_death ? sums[group] - bytes : sums[group] + bytes;
  };
  const std::uint64_t size = sizes_bytes_[row];
  if (!grouping_.rounding_group) return add(grouping_.group_of_allocation[row], size);
  const std::uint64_t own = std::min(size, requested_bytes_[row]);
  add(grouping_.group_of_allocation[row], own);
  add(*grouping_.rounding_group, size - own);
}

void GroupSums::bytes_at(Position position, std::uint64_t* sums) const {
  const std::size_t block = LiveChanges::block_of(position);
  std::copy_n(before_.data() + block * groups_, groups_, sums);
  changes_.for_each_change_in_block(
      position, [&](std::uint32_t row, bool is_death) { apply(row, is_death, sums); });
}

Timeline::Timeline(const DeviceRecord& record)
    : allocated_(allocated_lifetimes(record), record.events.size()),
      reserved_(reserved_lifetimes(record), record.events.size()),
      times_(record.events, record.run_start_ns),
      has_pool_(record.segments.size() > 0) {}

std::uint32_t Timeline::deepest_level() const {
  std::uint32_t level = 0;
  // Time is uneven: the busiest stretch needs a few more levels than the average.
  const std::uint64_t wanted = (std::uint64_t{last_position()} + 1) * (times_.is_known() ? 64 : 1);
  while (level < kMostLevels && (std::uint64_t{kTileBuckets} << level) < wanted) ++level;
  return level;
}

Timeline::Bucket Timeline::event_bucket(std::uint64_t number, std::uint64_t count) const {
  const std::uint64_t positions = std::uint64_t{last_position()} + 1;
  const std::uint64_t from = number * positions / count;
  const std::uint64_t to = (number + 1) * positions / count;
  return {static_cast<Position>(from), static_cast<Position>(std::max(to, from + 1))};
}

// From the state in effect when the bucket begins to the last event in it.
Timeline::Bucket Timeline::time_bucket(std::uint64_t number, std::uint64_t count) const {
  const long double duration =
      static_cast<long double>(times_.last_ns()) - static_cast<long double>(times_.first_ns()) + 1;
  const auto time_of = [&](std::uint64_t edge) {
    return times_.first_ns() + static_cast<std::int64_t>(static_cast<long double>(edge) * duration /
                                                         static_cast<long double>(count));
  };
  return {times_.position_before(time_of(number)), times_.position_before(time_of(number + 1)) + 1};
}

Timeline::Bucket Timeline::bucket(Axis axis, std::uint64_t number, std::uint64_t count) const {
  return axis == Axis::time ? time_bucket(number, count) : event_bucket(number, count);
}

Result<Tile> Timeline::tile(const TileAddress& address, const GroupSums& groups) const {
  if (address.level > deepest_level() || address.index >= (std::uint64_t{1} << address.level)) {
    return Error{ErrorCode::usage, "there is no such tile of the timeline", "", ""};
  }
  if (address.axis == Axis::time && !times_.is_known())
    return Error{ErrorCode::usage, "the recording does not state when its events happened", "", ""};
  const std::uint64_t count = std::uint64_t{kTileBuckets} << address.level;
  const std::uint64_t first = std::uint64_t{address.index} * kTileBuckets;
  std::vector<Bucket> buckets;
  for (std::uint64_t number = first; number < first + kTileBuckets; ++number)
    buckets.push_back(bucket(address.axis, number, count));
  return tile_of(buckets, groups);
}

Tile Timeline::tile_of(std::span<const Bucket> buckets, const GroupSums& groups) const {
  Tile tile;
  tile.group_bytes.assign(groups.group_count(), {});
  std::vector<std::uint64_t> sums(groups.group_count());
  for (const Bucket& covered : buckets) {
    const LiveRange range = allocated_.range(covered.from, covered.to);
    tile.min_bytes.push_back(range.min_bytes);
    tile.max_bytes.push_back(range.max_bytes);
    tile.max_position.push_back(range.max_position);
    if (has_pool_)
      tile.reserved_bytes.push_back(reserved_.range(covered.from, covered.to).max_bytes);
    groups.bytes_at(range.max_position, sums.data());
    for (std::size_t group = 0; group < sums.size(); ++group)
      tile.group_bytes[group].push_back(sums[group]);
  }
  return tile;
}

}  // namespace gpumemprof
