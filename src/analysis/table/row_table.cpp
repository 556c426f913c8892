#include "analysis/table/row_table.h"

#include <algorithm>
#include <tuple>

namespace gpumemprof {

bool RowSearch::matches(const Store& store, const AllocationRow& row) {
  if (filter_.device && row.device != *filter_.device) return false;
  if (row.size_bytes < filter_.min_size_bytes) return false;
  if (!filter_.live_at.empty()) {
    const auto moment = filter_.live_at.find(row.device);
    if (moment == filter_.live_at.end() || !row.is_allocated_at(moment->second)) return false;
  }
  if (filter_.words.empty()) return true;
  if (words_ == nullptr) words_ = std::make_unique<SearchWords>(store, filter_.words);
  return words_->match(row.stack, row.forward_stack, row.source, row.name, row.tag);
}

void RowTable::add(const AllocationRow& row) {
  ++matches_;
  matching_bytes_ += row.size_bytes;
  if (most_ == 0) return;
  entries_.push_back({key_of(row), row, matches_});
  constexpr std::size_t kLeastRoom = 1024;
  if (entries_.size() >= 2 * most_ + kLeastRoom) drop_last();
}

void RowTable::drop_last() {
  std::ranges::nth_element(entries_, entries_.begin() + static_cast<std::ptrdiff_t>(most_),
                           [this](const Entry& a, const Entry& b) { return comes_before(a, b); });
  entries_.resize(most_);
}

std::vector<AllocationRow> RowTable::take() {
  std::ranges::sort(entries_,
                    [this](const Entry& a, const Entry& b) { return comes_before(a, b); });
  if (entries_.size() > most_) entries_.resize(most_);
  std::vector<AllocationRow> rows;
  for (const Entry& entry : entries_) rows.push_back(entry.row);
  entries_.clear();
  return rows;
}

std::optional<std::uint64_t> RowTable::key_of(const AllocationRow& row) const {
  switch (order_) {
    case AllocationOrder::birth:
      return row.birth == kNoEvent ? 0 : std::uint64_t{row.birth} + 1;
    case AllocationOrder::lifetime:
      if (row.lifetime_ns != kUnknownTime) return static_cast<std::uint64_t>(row.lifetime_ns);
      return std::nullopt;
    case AllocationOrder::rounding:
      return row.size_bytes - std::min(row.size_bytes, row.requested_bytes);
    case AllocationOrder::size:
      break;
  }
  return row.size_bytes;
}

// Ties in order of device and birth, however the run was read.
bool RowTable::comes_before(const Entry& a, const Entry& b) const {
  if (a.key.has_value() != b.key.has_value()) return a.key.has_value();
  if (a.key != b.key) return direction_ == SortDirection::down ? *a.key > *b.key : *a.key < *b.key;
  const auto place = [](const Entry& entry) {
    return std::tuple(entry.row.device, std::uint32_t{entry.row.birth + 1}, entry.number);
  };
  return place(a) < place(b);
}

}  // namespace gpumemprof
