#include "session/long_view/stretch_tile.h"

#include <algorithm>

namespace gpumemprof {
namespace {

// The position before the first event at or after that time.
Position position_before(const std::vector<StretchPtr>& stretches, std::int64_t time_ns) {
  for (const StretchPtr& stretch : stretches) {
    const Position local = stretch->view().timeline().times().position_before(time_ns);
    const Position found = stretch->of_run(local);
    if (found < stretch->end_event() || stretch == stretches.back()) return found;
  }
  return 0;
}

}  // namespace

void StretchTile::place_buckets(const std::vector<StretchPtr>& stretches) {
  const std::uint64_t count = TimelineScale::bucket_count(address_);
  const std::uint64_t first = TimelineScale::first_bucket(address_);
  const auto edge = [&](std::uint64_t number) {
    return address_.axis == Axis::time ? position_before(stretches, scale_.time_edge(number, count))
                                       : static_cast<Position>(scale_.position_edge(number, count));
  };
  Position from = edge(first);
  for (std::uint64_t number = first; number < first + TimelineScale::kTileBuckets; ++number) {
    const Position to = edge(number + 1);
    buckets_.push_back({from, address_.axis == Axis::time ? to + 1 : std::max(to, from + 1)});
    from = to;
  }
}

Tile StretchTile::of(const std::vector<StretchPtr>& stretches, GroupBy by) {
  place_buckets(stretches);
  is_filled_.assign(buckets_.size(), false);
  tile_.min_bytes.assign(buckets_.size(), 0);
  tile_.max_bytes = tile_.min_bytes;
  tile_.max_position.assign(buckets_.size(), 0);
  for (const StretchPtr& stretch : stretches) add(*stretch, by);
  return std::move(tile_);
}

void StretchTile::add(const Stretch& stretch, GroupBy by) {
  const GroupSums& sums = stretch.view().grouped(by).sums;
  // The moment after its first event is the first that belongs to it alone; that before it is its
  // own only if nothing comes before.
  const Position first = stretch.first_event() == 0 ? 0 : stretch.first_event() + 1;
  std::vector<Timeline::Bucket> local;
  std::vector<std::size_t> numbers;
  for (std::size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
    const Position from = std::max(buckets_[bucket].from, first);
    const Position to = std::min(buckets_[bucket].to, stretch.end_event() + 1);
    if (from >= to) continue;
    local.push_back({stretch.local(from), stretch.local(to)});
    numbers.push_back(bucket);
  }
  const Tile part = stretch.view().timeline().tile_of(local, sums);
  tile_.group_bytes.resize(std::max(tile_.group_bytes.size(), part.group_bytes.size()));
  for (std::vector<std::uint64_t>& bytes : tile_.group_bytes) bytes.resize(buckets_.size(), 0);
  if (!part.reserved_bytes.empty()) tile_.reserved_bytes.resize(buckets_.size(), 0);
  for (std::size_t row = 0; row < numbers.size(); ++row) join(numbers[row], stretch, part, row);
}

void StretchTile::join(std::size_t bucket, const Stretch& stretch, const Tile& part,
                       std::size_t row) {
  const bool is_first = !is_filled_[bucket];
  is_filled_[bucket] = true;
  tile_.min_bytes[bucket] =
      is_first ? part.min_bytes[row] : std::min(tile_.min_bytes[bucket], part.min_bytes[row]);
  if (!part.reserved_bytes.empty())
    tile_.reserved_bytes[bucket] = std::max(tile_.reserved_bytes[bucket], part.reserved_bytes[row]);
  if (!is_first && part.max_bytes[row] <= tile_.max_bytes[bucket]) return;
  tile_.max_bytes[bucket] = part.max_bytes[row];
  tile_.max_position[bucket] = stretch.of_run(part.max_position[row]);
  for (std::size_t group = 0; group < part.group_bytes.size(); ++group)
    tile_.group_bytes[group][bucket] = part.group_bytes[group][row];
}

}  // namespace gpumemprof
