#include "analysis/moment/live_rows.h"

#include <algorithm>

namespace gpumemprof {
namespace {

constexpr std::size_t kFewestBirths = 16384;  // between two lists

}  // namespace

LiveRows::LiveRows(const DeviceRecord& record) : rows_(record.allocations) {
  for (std::size_t row = 1; row < rows_.size() && is_sorted_; ++row)
    is_sorted_ = birth(row - 1) <= birth(row);
  if (is_sorted_) write_lists();
}

void LiveRows::write_lists() {
  lists_.push_back({0, 0});
  std::vector<std::uint32_t> active;
  std::size_t row = 0;
  while (row < rows_.size()) {
    const std::size_t births = std::max(kFewestBirths, active.size());
    for (const std::size_t end = std::min(rows_.size(), row + births); row < end; ++row)
      active.push_back(static_cast<std::uint32_t>(row));
    if (row == rows_.size()) break;
    // What is freed at or before the birth of the last row is not active after it.
    const Moment moment = moment_of(birth(row - 1));
    std::erase_if(active, [&](std::uint32_t born) { return !rows_.is_active_at(born, moment); });
    lists_.push_back({listed_.size(), row});
    listed_.append(active);
  }
}

std::size_t LiveRows::first_born_at(Position position) const {
  std::size_t low = 0;
  std::size_t high = rows_.size();
  while (low < high) {
    const std::size_t middle = low + (high - low) / 2;
    if (birth(middle) < position) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

std::vector<AllocationId> LiveRows::active_at(Position position) const {
  const Moment moment = moment_of(position);
  std::vector<AllocationId> active;
  const auto add = [&](std::size_t row) {
    if (rows_.is_active_at(row, moment)) active.emplace_back(row);
  };
  if (!is_sorted_) {
    for (std::size_t row = 0; row < rows_.size(); ++row) add(row);
    return active;
  }
  // The last list whose births are all at or before the position.
  std::size_t list = lists_.size() - 1;
  while (list > 0 && birth(lists_[list].next_row - 1) > position) --list;
  const std::size_t end = list + 1 < lists_.size() ? lists_[list + 1].first : listed_.size();
  for (std::size_t index = lists_[list].first; index < end; ++index) add(listed_[index]);
  for (std::size_t row = lists_[list].next_row; row < rows_.size() && birth(row) <= position; ++row)
    add(row);
  return active;
}

}  // namespace gpumemprof
