#include <algorithm>
#include <bitset>
#include <cmath>
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

// Some of the rows, in order: the first, the last, and others spread over the bytes between them,
// so that what holds most is seen most. One from each of equal parts, but at varying places in
// them: what is allocated in turns must not be seen by turns.
std::vector<std::uint32_t> spread(const std::vector<std::uint32_t>& rows,
                                  const Column<std::uint64_t>& bytes, std::size_t most) {
  if (rows.size() <= most) return rows;
  if (most < 2) return {rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(most)};
  double total = 0;
  for (const std::uint32_t row : rows) total += static_cast<double>(bytes[row]) + 1;
  constexpr double kGoldenRatio = 0.6180339887498949;
  std::vector<std::uint32_t> chosen = {rows.front()};
  double seen = 0;
  std::size_t at = 0;
  for (std::size_t part = 1; part + 1 < most; ++part) {
    const double place = std::fmod(static_cast<double>(part) * kGoldenRatio, 1.0);
    const double wanted =
        total * (static_cast<double>(part - 1) + place) / static_cast<double>(most - 2);
    while (at + 1 < rows.size() && seen + static_cast<double>(bytes[rows[at]]) + 1 <= wanted)
      seen += static_cast<double>(bytes[rows[at++]]) + 1;
    if (rows[at] != chosen.back()) chosen.push_back(rows[at]);
  }
  if (rows.back() != chosen.back()) chosen.push_back(rows.back());
  return chosen;
}

}  // namespace

std::vector<KeptSite> FollowedDevice::kept_sites(const KeptSitesWanted& wanted) const {
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
    const bool is_kept = kept.parts.count() >= kFewestParts && !wanted.only_growing;
    if (!is_kept && !is_growing) continue;
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
    for (const std::uint32_t row : spread(kept.rows, rows.requested_bytes, wanted.most_blocks))
      shown.blocks.push_back({rows.address[row], rows.requested_bytes[row]});
    found.push_back(std::move(shown));
  }
  std::ranges::stable_sort(found, std::ranges::greater(), &KeptSite::bytes);
  if (found.size() > wanted.most_sites) found.resize(wanted.most_sites);
  return found;
}

}  // namespace gpumemprof
