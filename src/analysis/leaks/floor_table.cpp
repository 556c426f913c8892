#include "analysis/leaks/floor_table.h"

#include <algorithm>

#include "analysis/growth/plausible_bytes.h"

namespace gpumemprof {

void SiteFloors::add(FloorRange seen, std::uint64_t bytes, bool is_collected) {
  const std::int64_t size = plausible_bytes(bytes);
  FloorChange& birth = changes[static_cast<std::uint32_t>(seen.first)];
  birth.born_bytes += size;
  ++birth.born_blocks;
  if (seen.end > seen.first + 1) birth.kept_bytes += size;
  FloorChange& death = changes[static_cast<std::uint32_t>(seen.end)];
  death.freed_bytes += size;
  ++death.freed_blocks;
  if (is_collected) add_collected(seen.end, bytes);
}

void SiteFloors::add_collected(std::size_t floor, std::uint64_t bytes) {
  changes[static_cast<std::uint32_t>(floor)].collected_bytes += plausible_bytes(bytes);
}

void SiteFloors::settle(std::size_t before_floor, std::size_t floors) {
  auto at = changes.begin();
  for (; at != changes.end() && at->first < std::min(before_floor, floors); ++at) {
    if (!settled) settled.emplace(floors);
    settled->add(at->first, at->second);
  }
  changes.erase(changes.begin(), at);
}

TrendFollower SiteFloors::followed(std::size_t floors) const {
  TrendFollower follower = settled.value_or(TrendFollower(floors));
  for (const auto& [floor, change] : changes) {
    if (floor >= floors) break;
    follower.add(floor, change);
  }
  return follower;
}

}  // namespace gpumemprof
