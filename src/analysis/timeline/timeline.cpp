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

TimelineScale Timeline::scale() const {
  TimelineScale scale{std::uint64_t{last_position()} + 1, kUnknownTime, kUnknownTime};
  if (times_.is_known()) scale = {scale.positions, times_.first_ns(), times_.last_ns()};
  return scale;
}

std::uint32_t TimelineScale::deepest_level() const {
  std::uint32_t level = 0;
  // Time is uneven: the busiest stretch needs a few more levels than the average.
  const std::uint64_t wanted = positions * (has_times() ? 64 : 1);
  while (level < kMostLevels && (std::uint64_t{kTileBuckets} << level) < wanted) ++level;
  return level;
}

Status TimelineScale::check(const TileAddress& address) const {
  if (address.level > deepest_level() || address.index >= (std::uint64_t{1} << address.level))
    return Error{ErrorCode::usage, "there is no such tile of the timeline", "", ""};
  if (address.axis == Axis::time && !has_times())
    return Error{ErrorCode::usage, "the recording does not state when its events happened", "", ""};
  return Done{};
}

std::int64_t TimelineScale::time_edge(std::uint64_t number, std::uint64_t count) const {
  const long double duration =
      static_cast<long double>(last_ns) - static_cast<long double>(first_ns) + 1;
  return first_ns + static_cast<std::int64_t>(static_cast<long double>(number) * duration /
                                              static_cast<long double>(count));
}

TimelineScale::Stretch TimelineScale::stretch_of(const TileAddress& address) const {
  const bool is_time = address.axis == Axis::time;
  const long double origin = is_time ? static_cast<long double>(first_ns) : 0.0L;
  const long double whole =
      is_time ? static_cast<long double>(last_ns) - static_cast<long double>(first_ns) + 1
              : static_cast<long double>(positions);
  const long double width = whole / static_cast<long double>(std::uint64_t{1} << address.level);
  const long double from = origin + width * address.index;
  return {from, from + width};
}

// On the axis of time: from the state in effect when the bucket begins to the last event in it.
Timeline::Bucket Timeline::bucket(Axis axis, std::uint64_t number, std::uint64_t count) const {
  const TimelineScale scale = this->scale();
  if (axis == Axis::time)
    return {times_.position_before(scale.time_edge(number, count)),
            times_.position_before(scale.time_edge(number + 1, count)) + 1};
  const std::uint64_t from = scale.position_edge(number, count);
  const std::uint64_t to = scale.position_edge(number + 1, count);
  return {static_cast<Position>(from), static_cast<Position>(std::max(to, from + 1))};
}

Result<Tile> Timeline::tile(const TileAddress& address, const GroupSums& groups) const {
  if (const Status exists = scale().check(address); !exists) return exists.error();
  const std::uint64_t count = TimelineScale::bucket_count(address);
  const std::uint64_t first = TimelineScale::first_bucket(address);
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
