#include "analysis/growth/site_series.h"

#include <algorithm>

#include "analysis/growth/plausible_bytes.h"

namespace gpumemprof {
namespace {

// The first steps are warm-up: they allocate optimizer state, workspaces and caches.
constexpr std::size_t kWarmUpFloors = 2;
constexpr std::size_t kFewestRises = 3;
// One block that is replaced by a larger one each time (sequences of varying length are sometimes
// in ascending order by chance).
constexpr std::size_t kFewestRisesOfOne = 6;
constexpr std::int64_t kMostFalls = 20;   // one part in this many may be freed
constexpr std::int64_t kSlowingDown = 3;  // a cache filling up: the second half adds less

}  // namespace

void SiteSeries::add(FloorRange seen, std::uint64_t bytes) {
  rise(seen.first, bytes);
  if (seen.end > seen.first + 1) keep(seen.first, bytes);
  fall(seen.end, bytes);
}

void SiteSeries::rise(std::size_t floor, std::uint64_t bytes) {
  changes_[floor].bytes += plausible_bytes(bytes);
}

void SiteSeries::keep(std::size_t floor, std::uint64_t bytes) {
  changes_[floor].kept_bytes += plausible_bytes(bytes);
}

void SiteSeries::fall(std::size_t floor, std::uint64_t bytes) {
  changes_[floor].bytes -= plausible_bytes(bytes);
}

void SiteSeries::settle(std::size_t before_floor) {
  for (auto at = changes_.lower_bound(settled_); at != changes_.end() && at->first < before_floor;)
    at = at->second.bytes == 0 ? changes_.erase(at) : std::next(at);
  settled_ = before_floor;
}

std::optional<SiteGrowth> SiteSeries::growth(std::size_t count) const {
  std::int64_t rises = 0;
  std::int64_t falls = 0;
  std::int64_t kept = 0;
  std::size_t times = 0;
  std::size_t first = 0;
  std::size_t last = 0;
  std::size_t longest_pause = 1;
  for (const auto& [floor, change] : changes_) {
    if (floor < kWarmUpFloors || floor >= count) continue;
    if (change.bytes < 0) falls -= change.bytes;
    if (change.bytes <= 0) continue;
    if (times++ == 0) first = floor;
    if (times > 1) longest_pause = std::max(longest_pause, floor - last);
    last = floor;
    rises += change.bytes;
    kept += change.kept_bytes;
  }
  const bool is_of_one = 2 * kept < rises;
  if (times < (is_of_one ? kFewestRisesOfOne : kFewestRises)) return std::nullopt;
  if (kMostFalls * falls > rises) return std::nullopt;
  // It must continue to the end, at about the same pace.
  if (count - last > 2 * longest_pause) return std::nullopt;
  const std::size_t middle = (first + count) / 2;
  std::int64_t late = 0;
  for (auto at = changes_.lower_bound(middle); at != changes_.end() && at->first < count; ++at)
    late += at->second.bytes;
  if (kSlowingDown * late < rises - falls - late) return std::nullopt;
  SiteGrowth found;
  found.bytes = static_cast<std::uint64_t>(rises - falls);
  found.first_floor = first;
  // What the warm-up steps left live as well, if it is the same again.
  const auto before = changes_.find(first - 1);
  const auto pace = (rises - falls) / static_cast<std::int64_t>(count - first);
  if (first == kWarmUpFloors && before != changes_.end() && before->second.bytes > 0 &&
      before->second.bytes <= 2 * pace) {
    found.bytes += static_cast<std::uint64_t>(before->second.bytes);
    found.first_floor = first - 1;
  }
  return found;
}

}  // namespace gpumemprof
