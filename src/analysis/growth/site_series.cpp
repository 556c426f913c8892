#include "analysis/growth/site_series.h"

#include <algorithm>
#include <utility>

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
constexpr std::size_t kMostParts = 1024;  // of what was settled
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

void SiteSeries::Sum::add(std::size_t floor, const Change& change) {
  if (floor + 1 == kWarmUpFloors) warm_up_bytes = change.bytes;
  if (floor < kWarmUpFloors) return;
  if (change.bytes < 0) falls -= change.bytes;
  if (change.bytes <= 0) return;
  if (times++ == 0) first = floor;
  if (times > 1) longest_pause = std::max(longest_pause, floor - last);
  last = floor;
  rises += change.bytes;
  kept += change.kept_bytes;
}

void SiteSeries::settle(std::size_t before_floor) {
  auto at = changes_.begin();
  for (; at != changes_.end() && at->first < before_floor; ++at) {
    if (at->second.bytes == 0) continue;
    settled_.add(at->first, at->second);
    add_settled(at->first, at->second.bytes);
  }
  changes_.erase(changes_.begin(), at);
}

void SiteSeries::add_settled(std::size_t floor, std::int64_t bytes) {
  while (floor >> settled_shift_ >= kMostParts) {
    ++settled_shift_;
    for (std::size_t part = 0; part < settled_bytes_.size(); ++part) {
      const std::int64_t one = std::exchange(settled_bytes_[part], 0);
      settled_bytes_[part / 2] += one;
    }
    settled_bytes_.resize((settled_bytes_.size() + 1) / 2);
  }
  const std::size_t part = floor >> settled_shift_;
  if (part >= settled_bytes_.size()) settled_bytes_.resize(part + 1);
  settled_bytes_[part] += bytes;
}

std::int64_t SiteSeries::settled_since(std::size_t floor) const {
  std::int64_t bytes = 0;
  const std::size_t rounding = (std::size_t{1} << settled_shift_) - 1;
  for (std::size_t part = (floor + rounding) >> settled_shift_; part < settled_bytes_.size();
       ++part)
    bytes += settled_bytes_[part];
  return bytes;
}

std::optional<SiteGrowth> SiteSeries::growth(std::size_t count) const {
  Sum sum = settled_;
  for (const auto& [floor, change] : changes_) {
    if (floor < count) sum.add(floor, change);
  }
  const auto& [rises, falls, kept, times, first, last, longest_pause, warm_up_bytes] = sum;
  const bool is_of_one = 2 * kept < rises;
  if (times < (is_of_one ? kFewestRisesOfOne : kFewestRises)) return std::nullopt;
  if (kMostFalls * falls > rises) return std::nullopt;
  // It must continue to the end, at about the same pace.
  if (count - last > 2 * longest_pause) return std::nullopt;
  const std::size_t middle = (first + count) / 2;
  std::int64_t late = settled_since(middle);
  for (auto at = changes_.lower_bound(middle); at != changes_.end() && at->first < count; ++at)
    late += at->second.bytes;
  if (kSlowingDown * late < rises - falls - late) return std::nullopt;
  SiteGrowth found;
  found.bytes = static_cast<std::uint64_t>(rises - falls);
  found.first_floor = first;
  // What the warm-up steps left live as well, if it is the same again.
  const auto pace = (rises - falls) / static_cast<std::int64_t>(count - first);
  if (first == kWarmUpFloors && warm_up_bytes > 0 && warm_up_bytes <= 2 * pace) {
    found.bytes += static_cast<std::uint64_t>(warm_up_bytes);
    found.first_floor = first - 1;
  }
  return found;
}

}  // namespace gpumemprof
