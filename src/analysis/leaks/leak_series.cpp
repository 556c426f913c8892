#include "analysis/leaks/leak_series.h"

#include <algorithm>

namespace gpumemprof {

namespace {

bool is_of_line(const Store& store, const SiteFloors& site, const LeakSite& leak) {
  if (site.is_backward != leak.is_backward) return false;
  if (site.stack.is_none() || leak.stack.is_none()) return site.stack == leak.stack;
  return store.stacks().frame(site.stack) == store.stacks().frame(leak.stack);
}

}  // namespace

LeakSeries find_leak_series(const Store& store, const LeakGround& ground,
                            const DeviceLeaks& leaks) {
  LeakSeries series;
  const std::size_t floors = ground.table.floors.size();
  for (const DeviceFloor& floor : ground.table.floors) series.step.push_back(floor.step);
  for (const LeakSite& leak : leaks.leaks) {
    std::vector<std::uint64_t>& bytes = series.bytes.emplace_back(floors, 0);
    for (const SiteFloors& site : ground.table.sites) {
      if (!is_of_line(store, site, leak)) continue;
      std::int64_t live = 0;
      auto change = site.changes.begin();
      for (std::size_t floor = 0; floor < floors; ++floor) {
        for (; change != site.changes.end() && change->first <= floor; ++change)
          live += change->second.bytes();
        bytes[floor] += static_cast<std::uint64_t>(std::max<std::int64_t>(live, 0));
      }
    }
  }
  return series;
}

}  // namespace gpumemprof
