#include "analysis/timeline/pyramid_timeline.h"

#include <algorithm>

namespace gpumemprof {
namespace {

constexpr std::size_t kPyramidFanOut = 16;

}  // namespace

PyramidTimeline::PyramidTimeline(Pyramid pyramid, const RunStart& start, std::int64_t last_ns,
                                 bool has_pool)
    : pyramid_(std::move(pyramid)), start_(start), has_pool_(has_pool) {
  scale_.positions = pyramid_.events + 1;
  for (const PyramidBucket& bucket : pyramid_.buckets) {
    const std::int64_t before = times_.empty() ? bucket.first_time_ns : times_.back();
    times_.push_back(std::max(before, bucket.first_time_ns));
  }
  const bool has_times = last_ns != kUnknownTime && !times_.empty() &&
                         std::ranges::find(pyramid_.buckets, kUnknownTime,
                                           &PyramidBucket::first_time_ns) == pyramid_.buckets.end();
  if (has_times) {
    scale_.first_ns = times_.front();
    scale_.last_ns = std::max(last_ns, times_.back());
  }
  build_tree();
}

void PyramidTimeline::join(Extremes& all, const Extremes& one) {
  all.min_bytes = std::min(all.min_bytes, one.min_bytes);
  all.reserved_bytes = std::max(all.reserved_bytes, one.reserved_bytes);
  if (one.max_bytes <= all.max_bytes) return;
  all.max_bytes = one.max_bytes;
  all.max_bucket = one.max_bucket;
}

void PyramidTimeline::build_tree() {
  std::vector<Extremes>& leaves = tree_.emplace_back();
  for (std::size_t row = 0; row < pyramid_.buckets.size(); ++row) {
    const PyramidBucket& bucket = pyramid_.buckets[row];
    leaves.push_back(
        {bucket.min_allocated_bytes, bucket.max_allocated_bytes, row, bucket.max_reserved_bytes});
  }
  while (tree_.back().size() > kPyramidFanOut) {
    std::vector<Extremes> above;
    const std::vector<Extremes>& below = tree_.back();
    for (std::size_t row = 0; row < below.size(); ++row) {
      if (row % kPyramidFanOut == 0) {
        above.push_back(below[row]);
      } else {
        join(above.back(), below[row]);
      }
    }
    tree_.push_back(std::move(above));
  }
}

PyramidTimeline::Extremes PyramidTimeline::extremes(std::size_t first, std::size_t end) const {
  Extremes all = tree_[0][first];
  std::size_t row = first + 1;
  while (row < end) {
    std::size_t level = 0;
    std::size_t width = 1;
    while (level + 1 < tree_.size() && row % (width * kPyramidFanOut) == 0 &&
           row + width * kPyramidFanOut <= end) {
      width *= kPyramidFanOut;
      ++level;
    }
    join(all, tree_[level][row / width]);
    row += width;
  }
  return all;
}

std::int64_t PyramidTimeline::about_when(std::uint32_t event) const {
  const std::size_t bucket = std::min<std::size_t>(event / events_per_bucket(), times_.size() - 1);
  const std::int64_t from = times_[bucket];
  const std::int64_t to = bucket + 1 < times_.size() ? times_[bucket + 1] : scale_.last_ns;
  const std::uint64_t first = std::uint64_t{bucket} * events_per_bucket();
  const std::uint64_t events = std::max<std::uint64_t>(
      1, std::min<std::uint64_t>(events_per_bucket(), pyramid_.events - first));
  return from + static_cast<std::int64_t>(static_cast<long double>(to - from) *
                                          static_cast<long double>(event - first) /
                                          static_cast<long double>(events));
}

PyramidTimeline::Range PyramidTimeline::positions_before(std::int64_t time_ns) const {
  const auto before = static_cast<std::uint64_t>(std::ranges::lower_bound(times_, time_ns) -
                                                 times_.begin());  // buckets that begin earlier
  if (before == 0) return {};
  const std::uint64_t last = std::min(before * events_per_bucket(), pyramid_.events);
  return {static_cast<Position>((before - 1) * events_per_bucket() + 1),
          static_cast<Position>(last)};
}

// The bucket of the pyramid that begins nearest to the position.
std::size_t PyramidTimeline::edge_at_position(std::uint64_t position) const {
  if (position >= scale_.positions) return pyramid_.buckets.size();
  const std::uint64_t size = events_per_bucket();
  return static_cast<std::size_t>(
      std::min<std::uint64_t>((position + size / 2) / size, pyramid_.buckets.size()));
}

std::size_t PyramidTimeline::edge_at_time(std::int64_t time_ns) const {
  if (time_ns > scale_.last_ns) return times_.size();
  const auto after = std::ranges::lower_bound(times_, time_ns);
  if (after == times_.begin()) return 0;
  const auto row = static_cast<std::size_t>(after - times_.begin());
  const std::int64_t next = after == times_.end() ? scale_.last_ns : *after;
  return time_ns - times_[row - 1] < next - time_ns ? row - 1 : row;
}

std::vector<PyramidTimeline::Cover> PyramidTimeline::covers(const TileAddress& address) const {
  const std::uint64_t count = TimelineScale::bucket_count(address);
  const std::uint64_t first = TimelineScale::first_bucket(address);
  const auto edge = [&](std::uint64_t number) {
    return address.axis == Axis::time ? edge_at_time(scale_.time_edge(number, count))
                                      : edge_at_position(scale_.position_edge(number, count));
  };
  std::vector<Cover> found;
  if (pyramid_.buckets.empty()) return found;
  std::size_t from = edge(first);
  for (std::uint64_t number = first; number < first + TimelineScale::kTileBuckets; ++number) {
    const std::size_t to = edge(number + 1);
    // Between two edges lies less than half a bucket: the one that it is in, or follows.
    found.push_back(
        from < to ? Cover{from, to}
                  : Cover{std::max<std::size_t>(from, 1) - 1, std::max<std::size_t>(from, 1)});
    from = to;
  }
  return found;
}

std::vector<Timeline::Bucket> PyramidTimeline::buckets_of(const TileAddress& address) const {
  std::vector<Timeline::Bucket> found;
  if (pyramid_.buckets.empty()) found.assign(TimelineScale::kTileBuckets, {0, 1});
  for (const Cover& cover : covers(address)) {
    const std::uint64_t from = cover.first == 0 ? 0 : cover.first * events_per_bucket() + 1;
    const std::uint64_t to =
        std::min<std::uint64_t>(cover.end * events_per_bucket() + 1, scale_.positions);
    found.push_back({static_cast<Position>(from), static_cast<Position>(to)});
  }
  return found;
}

PyramidTimeline::Answer PyramidTimeline::tile(const TileAddress& address) const {
  Answer answer;
  Tile& tile = answer.tile;
  if (pyramid_.buckets.empty()) {
    tile.min_bytes.assign(TimelineScale::kTileBuckets, start_.allocated_bytes);
    tile.max_bytes = tile.min_bytes;
    tile.max_position.assign(TimelineScale::kTileBuckets, 0);
    if (has_pool_) tile.reserved_bytes.assign(TimelineScale::kTileBuckets, start_.reserved_bytes);
    answer.sources.assign(TimelineScale::kTileBuckets, start_.sources);
    return answer;
  }
  for (const Cover& cover : covers(address)) {
    const Extremes found = extremes(cover.first, cover.end);
    const PyramidBucket& most = pyramid_.buckets[found.max_bucket];
    tile.min_bytes.push_back(found.min_bytes);
    tile.max_bytes.push_back(found.max_bytes);
    tile.max_position.push_back(position_after(most.max_event));
    if (has_pool_) tile.reserved_bytes.push_back(found.reserved_bytes);
    answer.sources.push_back(most.at_max);
    if (cover.first > 0) continue;
    tile.min_bytes.back() = std::min(tile.min_bytes.back(), start_.allocated_bytes);
    if (has_pool_)
      tile.reserved_bytes.back() = std::max(tile.reserved_bytes.back(), start_.reserved_bytes);
    if (start_.allocated_bytes < tile.max_bytes.back()) continue;
    tile.max_bytes.back() = start_.allocated_bytes;
    tile.max_position.back() = 0;
    answer.sources.back() = start_.sources;
  }
  return answer;
}

}  // namespace gpumemprof
