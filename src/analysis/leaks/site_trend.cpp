#include "analysis/leaks/site_trend.h"

#include <algorithm>
#include <cmath>

namespace gpumemprof {
namespace {

// The first steps are warm-up: they allocate optimizer state, workspaces and caches.
constexpr std::uint32_t kWarmUpFloors = 2;
constexpr std::uint32_t kFewestRises = 3;
constexpr std::uint32_t kShortestSpan = 6;  // floors from the first rise to the last
// Inputs of varying length are sometimes in ascending order by chance.
constexpr std::uint32_t kFewestRisesOfReplaced = 6;
constexpr std::int64_t kMostFalls = 20;      // one part in this many may be freed
constexpr double kSlowingDown = 3;           // a cache filling up: the second half adds less
constexpr std::uint32_t kFewestValleys = 4;  // of memory that grows and is partly freed again
constexpr std::uint32_t kLongerThanBefore = 2;

}  // namespace

void TrendFollower::Ascent::add(const Point& point, std::int64_t start, std::size_t floors) {
  if (count == 0) {
    first = point;
    start_bytes = bytes_at_middle = start;
  } else {
    longest_pause = std::max(longest_pause, point.floor - last.floor);
    const auto increment = static_cast<double>(point.bytes - last.bytes);
    const double away = increment - mean;
    mean += away / count;
    squares += away * (increment - mean);
  }
  const std::uint32_t middle = (first.floor + static_cast<std::uint32_t>(floors)) / 2;
  if (point.floor < middle) bytes_at_middle = point.bytes;
  last = point;
  ++count;
}

// Of what is replaced by more each time, the first rise may be all of it, and no growth.
std::int64_t TrendFollower::Ascent::base(bool is_replaced) const {
  const auto first_rise = static_cast<double>(first.bytes - start_bytes);
  return is_replaced && first_rise > 2 * mean ? first.bytes : start_bytes;
}

// Whether it continues to the end, at about the same pace.
bool TrendFollower::Ascent::continues(std::size_t floors, bool is_replaced) const {
  if (floors - last.floor > 2 * std::size_t{longest_pause}) return false;
  const auto early = static_cast<double>(bytes_at_middle - base(is_replaced));
  const auto late = static_cast<double>(last.bytes - bytes_at_middle);
  return kSlowingDown * late >= early;
}

void TrendFollower::Walk::rise(const Point& point, std::int64_t before, const FloorChange& change,
                               std::size_t floors) {
  rises.add(point, before, floors);
  risen_bytes += change.bytes();
  kept_bytes += std::min(change.kept_bytes, change.born_bytes);
}

void TrendFollower::add(std::uint32_t floor, const FloorChange& change) {
  const Point before{floor, live_bytes_, blocks_.born - blocks_.freed};
  live_bytes_ += change.bytes();
  blocks_.born += change.born_blocks;
  blocks_.freed += change.freed_blocks;
  if (floor <= floors_ / 2) blocks_.live_in_middle = blocks_.born - blocks_.freed;
  if (floor + 1 == kWarmUpFloors) {
    warm_up_bytes_ = change.bytes();
    warm_up_blocks_ = before.blocks;
  }
  if (floor < kWarmUpFloors || change.bytes() == 0) return;
  const Point point{floor, live_bytes_, before.blocks};
  if (change.bytes() < 0) {
    fall(point, change);
    return;
  }
  if (walk_.rises.count == 0) valley_bytes_ = before.bytes;
  walk_.rise(point, before.bytes, change, floors_);
  since_fall_.rise(point, before.bytes, change, floors_);
  swing_bytes_ = std::max(swing_bytes_, point.bytes - valley_bytes_);
}

void TrendFollower::fall(const Point& point, const FloorChange& change) {
  ++walk_.falls;
  walk_.fallen_bytes -= change.bytes();
  walk_.collected_bytes += std::min(change.collected_bytes, -change.bytes());
  valley_bytes_ = point.bytes;
  since_fall_ = Walk();
  if (last_fall_ && point.bytes > last_fall_->bytes) add_valley(*last_fall_);
  last_fall_ = point;
}

void TrendFollower::add_valley(const Point& point) {
  if (valleys_.count > 0 && point.bytes <= valleys_.last.bytes) are_valleys_rising_ = false;
  valleys_.add(point, point.bytes, floors_);
}

// From the first rise to the last, so that what rises every few floors is not rounded to a floor.
void TrendFollower::measure(SiteTrend& trend, const Ascent& ascent) const {
  trend.first_floor = ascent.first.floor;
  trend.last_floor = ascent.last.floor;
  trend.rises = ascent.count;
  trend.grown_bytes = static_cast<std::uint64_t>(
      std::max<std::int64_t>(0, ascent.last.bytes - ascent.base(trend.is_replaced)));
  trend.grown_blocks = blocks_.born - blocks_.freed - ascent.first.blocks;
  const double span = std::max(1U, trend.last_floor - trend.first_floor);
  const auto between = static_cast<double>(ascent.last.bytes - ascent.first.bytes);
  trend.bytes_per_floor = between / span;
  // The mean of the increments, and how far they scatter around it.
  const auto count = static_cast<double>(ascent.count - 1);
  const double mean = between / count;
  if (count > 1 && mean > 0) trend.error = std::sqrt(ascent.squares / (count - 1) / count) / mean;
}

// It only ever rises.
bool TrendFollower::grows_steadily(SiteTrend& trend, const Walk& walk) const {
  trend.is_replaced = 2 * walk.kept_bytes < walk.risen_bytes;
  const Ascent& rises = walk.rises;
  if (rises.count < (trend.is_replaced ? kFewestRisesOfReplaced : kFewestRises)) return false;
  if (kMostFalls * walk.fallen_bytes > walk.risen_bytes) return false;
  if (rises.last.floor - rises.first.floor < kShortestSpan ||
      !rises.continues(floors_, trend.is_replaced))
    return false;
  measure(trend, rises);
  return true;
}

// It rises and falls, but each time less is freed than was added.
bool TrendFollower::grows_from_valley_to_valley(SiteTrend& trend) const {
  TrendFollower all = *this;
  if (last_fall_) all.add_valley(*last_fall_);
  if (all.valleys_.count < kFewestValleys || !all.are_valleys_rising_) return false;
  if (!all.valleys_.continues(floors_, false)) return false;
  measure(trend, all.valleys_);
  return true;
}

SiteTrend TrendFollower::trend() const {
  SiteTrend trend;
  if (walk_.rises.count == 0) return trend;
  if (grows_steadily(trend, walk_)) {
    trend.trend = Trend::growing;
    // What the warm-up steps left live as well, if it is the same again, at the same pace; the
    // floor of a step may lie before or after what it keeps.
    const Ascent& rises = walk_.rises;
    const std::uint32_t pause = rises.first.floor - (kWarmUpFloors - 1);
    if (pause <= rises.longest_pause + 1 && warm_up_bytes_ > 0 &&
        static_cast<double>(warm_up_bytes_) <= 2 * rises.mean) {
      trend.first_floor = kWarmUpFloors - 1;
      trend.grown_bytes += static_cast<std::uint64_t>(warm_up_bytes_);
      trend.grown_blocks = blocks_.born - blocks_.freed - warm_up_blocks_;
    }
    return trend;
  }
  if (walk_.falls == 0 || kMostFalls * walk_.fallen_bytes <= walk_.risen_bytes) {
    if (walk_.rises.count >= kFewestRises) {
      trend.trend = Trend::stopped;
      trend.grown_bytes = static_cast<std::uint64_t>(walk_.risen_bytes);
    }
    return trend;
  }
  if (grows_from_valley_to_valley(trend)) {
    trend.trend = Trend::growing;
    return trend;
  }
  // What was freed once, and has grown for longer than before ever since.
  const std::uint32_t last_fall = last_fall_.value_or(Point()).floor;
  if (floors_ - last_fall > std::size_t{kLongerThanBefore} * last_fall) {
    if (since_fall_.rises.count > 0 && grows_steadily(trend, since_fall_)) {
      trend.trend = Trend::growing;
      return trend;
    }
  }
  trend = SiteTrend();
  trend.trend = Trend::up_and_down;
  trend.rises = walk_.rises.count;
  trend.swing_bytes = static_cast<std::uint64_t>(swing_bytes_);
  constexpr std::int64_t kParts = 10;
  trend.is_collected = kParts * walk_.collected_bytes >= (kParts - 2) * walk_.fallen_bytes &&
                       walk_.collected_bytes > 0;
  return trend;
}

}  // namespace gpumemprof
