#include "follow/live_sites.h"

#include <algorithm>

#include "analysis/code/shown_file.h"

namespace gpumemprof {
namespace {

constexpr std::size_t kFewestSteps = 8;
constexpr std::size_t kFewestRises = 3;

}  // namespace

std::uint32_t LiveSites::site_of(Whence from) {
  const AllocationSite line = lines_.of(from);
  const auto next = static_cast<std::uint32_t>(sites_.size());
  const std::uint32_t site = by_key_.find_or_insert(line.key(), next);
  if (site == next) sites_.push_back({line.stack, line.is_backward, 0, 0, 0, 0, {}});
  return site;
}

void LiveSites::end_step() {
  for (Site& site : sites_) {
    site.floors.push_back(site.low_bytes);
    if (site.floors.size() > kFloors) site.floors.pop_front();
    site.low_bytes = site.settled_bytes;
  }
}

// It never falls, rises at least three times, and has not stopped. What is made once, like the
// state of an optimizer in its first step, is no growth: where one rise is more than all others
// together, what comes after it counts.
std::optional<double> LiveSites::growth(const Site& site) {
  const std::deque<std::uint64_t>& floors = site.floors;
  if (!std::ranges::is_sorted(floors)) return std::nullopt;
  std::size_t begin = 0;
  while (floors.size() - begin >= kFewestSteps) {
    std::size_t rises = 0;
    std::size_t first = 0;
    std::size_t last = 0;
    std::size_t longest_pause = 1;
    std::size_t steepest = begin;
    std::uint64_t most = 0;
    for (std::size_t step = begin + 1; step < floors.size(); ++step) {
      const std::uint64_t rise = floors[step] - floors[step - 1];
      if (rise == 0) continue;
      if (rises++ == 0) {
        first = step;
      } else {
        longest_pause = std::max(longest_pause, step - last);
      }
      last = step;
      if (rise > most) steepest = step;
      most = std::max(most, rise);
    }
    if (rises < kFewestRises || floors.size() - last > 2 * longest_pause) return std::nullopt;
    const std::uint64_t grown = floors.back() - floors[first - 1];
    if (most <= grown - most)
      return static_cast<double>(grown) / static_cast<double>(floors.size() - first);
    begin = steepest;
  }
  return std::nullopt;
}

LiveSite LiveSites::describe(const Site& site, std::string_view program_folder) const {
  LiveSite shown;
  shown.is_backward = site.is_backward;
  shown.bytes = site.bytes;
  shown.blocks = site.blocks;
  shown.growth_bytes_per_step = growth(site);
  if (site.stack.is_none()) return shown;
  const Frame& frame = store_.frame(store_.stacks().frame(site.stack));
  shown.file = shown_file(store_.text(frame.file), program_folder);
  shown.line = frame.line;
  shown.function = std::string(store_.text(frame.name));
  return shown;
}

LiveSite LiveSites::describe(std::uint32_t site) const {
  return describe(sites_[site], program_folder(store_));
}

std::vector<LiveSite> LiveSites::largest(std::size_t most) const {
  std::vector<const Site*> order;
  for (const Site& site : sites_) {
    if (site.blocks > 0) order.push_back(&site);
  }
  const std::size_t count = std::min(most, order.size());
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(),
                    [](const Site* a, const Site* b) { return a->bytes > b->bytes; });
  const std::string folder = program_folder(store_);
  std::vector<LiveSite> shown;
  for (std::size_t rank = 0; rank < order.size(); ++rank) {
    if (rank < count || growth(*order[rank])) shown.push_back(describe(*order[rank], folder));
  }
  return shown;
}

}  // namespace gpumemprof
