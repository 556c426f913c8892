#include "analysis/leaks/site_trend.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace gpumemprof {
namespace {

// The first steps are warm-up: they allocate optimizer state, workspaces and caches.
constexpr std::uint32_t kWarmUpFloors = 2;
constexpr std::size_t kFewestRises = 3;
constexpr std::uint32_t kShortestSpan = 6;  // floors from the first rise to the last
// Inputs of varying length are sometimes in ascending order by chance.
constexpr std::size_t kFewestRisesOfReplaced = 6;
constexpr std::int64_t kMostFalls = 20;      // one part in this many may be freed
constexpr double kSlowingDown = 3;           // a cache filling up: the second half adds less
constexpr std::uint32_t kFewestValleys = 4;  // of memory that grows and is partly freed again
constexpr std::uint32_t kLongerThanBefore = 2;

struct Point {
  std::uint32_t floor = 0;
  std::int64_t bytes = 0;  // live at the floor
};

// The net changes of a line, after warm-up.
struct Walk {
  std::vector<Point> rises;  // the state after each
  std::vector<Point> falls;
  std::vector<Point> before;  // the state before each rise
  std::int64_t risen_bytes = 0;
  std::int64_t fallen_bytes = 0;
  std::int64_t collected_bytes = 0;  // part of the falls
  std::int64_t kept_bytes = 0;       // part of the rises
};

Walk walk_from(const SiteFloors& site, std::size_t floors, std::uint32_t first) {
  Walk walk;
  std::int64_t live = 0;
  for (const auto& [floor, change] : site.changes) {
    if (floor >= floors) break;
    const std::int64_t before = live;
    live += change.bytes();
    if (floor < first || change.bytes() == 0) continue;
    if (change.bytes() > 0) {
      walk.rises.push_back({floor, live});
      walk.before.push_back({floor, before});
      walk.risen_bytes += change.bytes();
      walk.kept_bytes += std::min(change.kept_bytes, change.born_bytes);
    } else {
      walk.falls.push_back({floor, live});
      walk.fallen_bytes -= change.bytes();
      walk.collected_bytes += std::min(change.collected_bytes, -change.bytes());
    }
  }
  return walk;
}

std::uint32_t longest_pause(const std::vector<Point>& points) {
  std::uint32_t longest = 1;
  for (std::size_t index = 1; index < points.size(); ++index)
    longest = std::max(longest, points[index].floor - points[index - 1].floor);
  return longest;
}

// Whether it continues to the end, at about the same pace.
bool continues(const std::vector<Point>& rises, std::int64_t start, std::size_t floors) {
  const std::uint32_t last = rises.back().floor;
  if (floors - last > 2 * std::size_t{longest_pause(rises)}) return false;
  const std::uint32_t middle = (rises.front().floor + static_cast<std::uint32_t>(floors)) / 2;
  std::int64_t at_middle = start;
  for (const Point& rise : rises) {
    if (rise.floor < middle) at_middle = rise.bytes;
  }
  const auto early = static_cast<double>(at_middle - start);
  const auto late = static_cast<double>(rises.back().bytes - at_middle);
  return kSlowingDown * late >= early;
}

// From the first rise to the last, so that what rises every few floors is not rounded to a floor.
void measure(SiteTrend& trend, const std::vector<Point>& rises, std::int64_t start) {
  trend.first_floor = rises.front().floor;
  trend.last_floor = rises.back().floor;
  trend.rises = static_cast<std::uint32_t>(rises.size());
  trend.grown_bytes =
      static_cast<std::uint64_t>(std::max<std::int64_t>(0, rises.back().bytes - start));
  const double span = std::max(1U, trend.last_floor - trend.first_floor);
  const auto between = static_cast<double>(rises.back().bytes - rises.front().bytes);
  trend.bytes_per_floor = between / span;
  // The mean of the increments, and how far they scatter around it.
  const auto count = static_cast<double>(rises.size() - 1);
  const double mean = between / count;
  double squares = 0;
  for (std::size_t index = 1; index < rises.size(); ++index) {
    const auto increment = static_cast<double>(rises[index].bytes - rises[index - 1].bytes);
    squares += (increment - mean) * (increment - mean);
  }
  if (count > 1 && mean > 0) trend.error = std::sqrt(squares / (count - 1) / count) / mean;
}

// It only ever rises.
bool grows_steadily(SiteTrend& trend, const Walk& walk, std::size_t floors) {
  trend.is_replaced = 2 * walk.kept_bytes < walk.risen_bytes;
  const std::size_t fewest = trend.is_replaced ? kFewestRisesOfReplaced : kFewestRises;
  if (walk.rises.size() < fewest) return false;
  if (kMostFalls * walk.fallen_bytes > walk.risen_bytes) return false;
  if (walk.rises.back().floor - walk.rises.front().floor < kShortestSpan) return false;
  if (!continues(walk.rises, walk.before.front().bytes, floors)) return false;
  measure(trend, walk.rises, walk.before.front().bytes);
  return true;
}

// It rises and falls, but each time less is freed than was added.
bool grows_from_valley_to_valley(SiteTrend& trend, const Walk& walk, std::size_t floors) {
  std::vector<Point> valleys;
  for (std::size_t index = 0; index < walk.falls.size(); ++index) {
    const bool is_last_of_fall =
        index + 1 == walk.falls.size() || walk.falls[index + 1].bytes > walk.falls[index].bytes;
    if (is_last_of_fall) valleys.push_back(walk.falls[index]);
  }
  if (valleys.size() < kFewestValleys) return false;
  for (std::size_t index = 1; index < valleys.size(); ++index) {
    if (valleys[index].bytes <= valleys[index - 1].bytes) return false;
  }
  if (!continues(valleys, valleys.front().bytes, floors)) return false;
  measure(trend, valleys, valleys.front().bytes);
  return true;
}

void find_swing(SiteTrend& trend, const Walk& walk) {
  std::size_t fall = 0;
  std::int64_t valley = walk.before.empty() ? 0 : walk.before.front().bytes;
  std::int64_t swing = 0;
  for (const Point& rise : walk.rises) {
    while (fall < walk.falls.size() && walk.falls[fall].floor < rise.floor)
      valley = walk.falls[fall++].bytes;
    swing = std::max(swing, rise.bytes - valley);
  }
  trend.swing_bytes = static_cast<std::uint64_t>(swing);
  constexpr std::int64_t kParts = 10;
  trend.is_collected =
      kParts * walk.collected_bytes >= (kParts - 2) * walk.fallen_bytes && walk.collected_bytes > 0;
}

}  // namespace

SiteTrend find_trend(const SiteFloors& site, std::size_t floors) {
  SiteTrend trend;
  Walk walk = walk_from(site, floors, kWarmUpFloors);
  if (walk.rises.empty()) return trend;
  const std::uint32_t before_first = walk.rises.front().floor - 1;
  const std::uint32_t first_rise = walk.rises.front().floor;
  if (grows_steadily(trend, walk, floors)) {
    trend.trend = Trend::growing;
    // What the warm-up steps left live as well, if it is the same again.
    const auto same = site.changes.find(before_first);
    if (first_rise == kWarmUpFloors && same != site.changes.end() && same->second.bytes() > 0 &&
        static_cast<double>(same->second.bytes()) <= 2 * trend.bytes_per_floor) {
      trend.first_floor = before_first;
      trend.grown_bytes += static_cast<std::uint64_t>(same->second.bytes());
    }
    return trend;
  }
  if (walk.falls.empty() || kMostFalls * walk.fallen_bytes <= walk.risen_bytes) {
    if (walk.rises.size() >= kFewestRises) {
      trend.trend = Trend::stopped;
      trend.grown_bytes = static_cast<std::uint64_t>(walk.risen_bytes);
    }
    return trend;
  }
  if (grows_from_valley_to_valley(trend, walk, floors)) {
    trend.trend = Trend::growing;
    return trend;
  }
  // What was freed once, and has grown for longer than before ever since.
  const std::uint32_t last_fall = walk.falls.back().floor;
  std::uint32_t longest = last_fall;
  std::uint32_t from = 0;
  for (const Point& fall : walk.falls) {
    longest = std::max(from == 0 ? fall.floor : 0, std::max(longest, fall.floor - from));
    from = fall.floor;
  }
  if (floors - last_fall > std::size_t{kLongerThanBefore} * longest) {
    const Walk since = walk_from(site, floors, last_fall + 1);
    if (!since.rises.empty() && grows_steadily(trend, since, floors)) {
      trend.trend = Trend::growing;
      return trend;
    }
  }
  trend = SiteTrend();
  trend.trend = Trend::up_and_down;
  trend.rises = static_cast<std::uint32_t>(walk.rises.size());
  find_swing(trend, walk);
  return trend;
}

}  // namespace gpumemprof
