#include "analysis/table/bands.h"

#include <algorithm>

namespace gpumemprof {

AllocationPage largest_bands(const DeviceRecord& record, Position from, Position to,
                             std::size_t most) {
  struct Band {
    double area;
    std::uint32_t row;
  };
  const AllocationColumns& rows = record.allocations;
  std::vector<Band> bands;
  AllocationPage page;
  for (std::uint32_t row = 0; row < rows.size(); ++row) {
    const std::uint32_t death = rows.free_requested_event[row];
    const Position birth = birth_position(rows.alloc_event[row]);
    const Position end = death == kNoEvent ? to : std::min(to, position_after(death));
    const Position start = std::max(from, birth);
    if (start >= end) continue;
    page.matching_bytes += rows.size_bytes[row];
    bands.push_back({static_cast<double>(rows.size_bytes[row]) * (end - start), row});
  }
  page.matches = bands.size();
  if (bands.size() > most) {
    const auto end = bands.begin() + static_cast<std::ptrdiff_t>(most);
    std::nth_element(bands.begin(), end, bands.end(), [](const Band& a, const Band& b) {
      return a.area != b.area ? a.area > b.area : a.row < b.row;
    });
    bands.erase(end, bands.end());
  }
  page.rows.reserve(bands.size());
  for (const Band& band : bands) page.rows.emplace_back(band.row);
  std::sort(page.rows.begin(), page.rows.end());
  return page;
}

}  // namespace gpumemprof
