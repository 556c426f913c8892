#include <algorithm>
#include <bitset>
#include <functional>

#include "follow/followed_device.h"

namespace gpumemprof {
namespace {

// The run so far is divided into equal parts; memory that stays from many of them accumulates.
// Parameters and buffers come from few.
constexpr std::uint64_t kParts = 16;
constexpr std::size_t kFewestParts = 4;

struct Kept {
  std::vector<std::uint32_t> rows;  // from before the step that is running
  std::vector<std::uint32_t> new_rows;
  std::bitset<kParts> parts;
};

template <class Rows>
std::vector<std::uint32_t> evenly(const Rows& rows, std::size_t most) {
  if (rows.size() <= most) return rows;
  std::vector<std::uint32_t> chosen;
  for (std::size_t rank = 0; rank < most; ++rank)
    chosen.push_back(rows[rank * (rows.size() - 1) / (most > 1 ? most - 1 : 1)]);
  return chosen;
}

}  // namespace

std::vector<KeptSite> FollowedDevice::kept_sites(std::size_t most_sites,
                                                 std::size_t most_blocks) const {
  const AllocationColumns& rows = record_.allocations;
  std::vector<Kept> by_site;
  const std::uint64_t part = events_ / kParts + 1;
  // Without steps, the last part stands for what is still in use.
  const std::uint64_t end = step_start_event_ > 0 ? step_start_event_ : events_ - events_ / kParts;
  for (std::uint32_t row = 0; row < details_.size(); ++row) {
    const Detail& detail = details_[row];
    if (!detail.is_live) continue;
    const std::uint32_t event = rows.alloc_event[row];
    if (event == kNoEvent) continue;
    if (by_site.size() <= detail.site) by_site.resize(detail.site + 1);
    Kept& kept = by_site[detail.site];
    (event < end ? kept.rows : kept.new_rows).push_back(row);
    if (event < end) kept.parts.set(event / part);
  }
  std::vector<KeptSite> found;
  for (std::uint32_t site = 0; site < by_site.size(); ++site) {
    Kept& kept = by_site[site];
    const bool is_growing = sites_.is_growing(site);
    if (kept.parts.count() < kFewestParts && !is_growing) continue;
    // A tensor that is replaced by a larger one in every step.
    if (kept.rows.empty()) kept.rows = std::move(kept.new_rows);
    if (kept.rows.empty()) continue;
    std::ranges::sort(kept.rows, {}, [&](std::uint32_t row) { return rows.alloc_event[row]; });
    KeptSite shown;
    shown.device = record_.device;
    shown.site = sites_.describe(site);
    shown.bytes = shown.site.bytes;
    shown.old_blocks = kept.rows.size();
    for (const std::uint32_t row : kept.rows) shown.old_bytes += rows.requested_bytes[row];
    for (const std::uint32_t row : evenly(kept.rows, most_blocks))
      shown.blocks.push_back({rows.address[row], rows.requested_bytes[row]});
    found.push_back(std::move(shown));
  }
  std::ranges::stable_sort(found, std::ranges::greater(), &KeptSite::bytes);
  if (found.size() > most_sites) found.resize(most_sites);
  return found;
}

}  // namespace gpumemprof
