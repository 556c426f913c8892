// Timeline: a device's live memory over its whole history, at any level of detail.
//
// Level n divides the history into kTileBuckets * 2^n buckets, equal in events or in time; a tile
// is kTileBuckets of them. A bucket has the exact least and most allocated bytes, the most reserved
// bytes, and what each group held at the moment of most: so a bucket's groups add up to its
// maximum.
#pragma once

#include <memory>
#include <vector>

#include "analysis/timeline/grouping.h"
#include "analysis/timeline/live_changes.h"
#include "base/result.h"

namespace gpumemprof {

enum class Axis : std::uint8_t { event, time };

// When events happened, for searching: never decreasing, whatever the recording says.
class EventTimes {
 public:
  // The events must outlive it.
  explicit EventTimes(const EventColumns& events, std::int64_t run_start_ns = kUnknownTime);

  // False: the recording has no times.
  [[nodiscard]] bool is_known() const { return !times_.empty(); }
  [[nodiscard]] std::int64_t first_ns() const { return times_.front(); }
  [[nodiscard]] std::int64_t last_ns() const { return times_.back(); }
  [[nodiscard]] std::int64_t of_event(std::uint32_t event) const { return times_[event]; }
  [[nodiscard]] std::int64_t since_first(std::int64_t time_ns) const {
    return time_ns - (run_start_ns_ == kUnknownTime ? first_ns() : run_start_ns_);
  }
  // The position before the first event at or after that time.
  [[nodiscard]] Position position_before(std::int64_t time_ns) const;

 private:
  std::int64_t run_start_ns_;       // of an excerpt: times are counted from here
  Column<std::int64_t> corrected_;  // only if the recording's own times decrease
  std::span<const std::int64_t> times_;
};

// What each group holds at any position.
class GroupSums {
 public:
  // All three arguments must outlive it.
  GroupSums(const Grouping& grouping, const LiveChanges& changes, const AllocationColumns& rows);

  [[nodiscard]] std::size_t group_count() const { return groups_; }
  // Writes group_count() sums.
  void bytes_at(Position position, std::uint64_t* sums) const;

 private:
  const Grouping& grouping_;
  void apply(std::uint32_t row, bool is_death, std::uint64_t* sums) const;

  const LiveChanges& changes_;
  std::span<const std::uint64_t> sizes_bytes_;
  std::span<const std::uint64_t> requested_bytes_;
  std::size_t groups_;
  Column<std::uint64_t> before_;  // each block of changes: one sum per group
};

struct TileAddress {
  Axis axis = Axis::event;
  std::uint32_t level = 0;
  std::uint32_t index = 0;
};

// How a run is divided into buckets and tiles, on both axes.
struct TimelineScale {
  static constexpr std::uint32_t kTileBuckets = 512;
  static constexpr std::uint32_t kMostLevels = 22;

  std::uint64_t positions = 1;
  std::int64_t first_ns = kUnknownTime;  // unknown: there is no axis of time
  std::int64_t last_ns = kUnknownTime;

  [[nodiscard]] bool has_times() const { return first_ns != kUnknownTime; }
  // The deepest level that shows more than the one above it.
  [[nodiscard]] std::uint32_t deepest_level() const;
  // An Error if there is no such tile.
  [[nodiscard]] Status check(const TileAddress& address) const;
  // Where bucket `number` of `count` begins; that is where the one before it ends.
  [[nodiscard]] std::uint64_t position_edge(std::uint64_t number, std::uint64_t count) const {
    return number * positions / count;
  }
  [[nodiscard]] std::int64_t time_edge(std::uint64_t number, std::uint64_t count) const;
  // The tile's first bucket and how many buckets its level has.
  [[nodiscard]] static std::uint64_t first_bucket(const TileAddress& address) {
    return std::uint64_t{address.index} * kTileBuckets;
  }
  [[nodiscard]] static std::uint64_t bucket_count(const TileAddress& address) {
    return std::uint64_t{kTileBuckets} << address.level;
  }
  // The tile on its axis: positions, or times.
  struct Stretch {
    long double from = 0;
    long double to = 0;
  };
  [[nodiscard]] Stretch stretch_of(const TileAddress& address) const;
};

struct Tile {
  std::vector<std::uint64_t> min_bytes;
  std::vector<std::uint64_t> max_bytes;
  std::vector<std::uint64_t> reserved_bytes;  // empty: the device has no pool
  std::vector<Position> max_position;
  std::vector<std::vector<std::uint64_t>> group_bytes;  // for each group, one per bucket
};

class Timeline {
 public:
  static constexpr std::uint32_t kTileBuckets = TimelineScale::kTileBuckets;

  // The record must outlive it.
  explicit Timeline(const DeviceRecord& record);

  [[nodiscard]] const LiveChanges& allocated() const { return allocated_; }
  [[nodiscard]] const EventTimes& times() const { return times_; }
  [[nodiscard]] Position last_position() const { return allocated_.last_position(); }
  [[nodiscard]] std::uint64_t reserved_at(Position position) const {
    return reserved_.bytes_at(position);
  }
  [[nodiscard]] TimelineScale scale() const;
  [[nodiscard]] std::uint32_t deepest_level() const { return scale().deepest_level(); }
  // An Error if there is no such tile.
  [[nodiscard]] Result<Tile> tile(const TileAddress& address, const GroupSums& groups) const;
  // Positions [from, to), at least one.
  struct Bucket {
    Position from;
    Position to;
  };
  [[nodiscard]] Tile tile_of(std::span<const Bucket> buckets, const GroupSums& groups) const;

 private:
  [[nodiscard]] Bucket bucket(Axis axis, std::uint64_t number, std::uint64_t count) const;

  LiveChanges allocated_;
  LiveChanges reserved_;
  EventTimes times_;
  bool has_pool_;
};

LifetimeColumns allocated_lifetimes(const DeviceRecord& record);
LifetimeColumns reserved_lifetimes(const DeviceRecord& record);

}  // namespace gpumemprof
