// Rows of a table whose gone rows may be used again.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/column.h"
#include "store/history.h"

namespace gpumemprof {

// A row that is free, or the one after the last of `count`.
inline std::uint32_t take_row(std::vector<std::uint32_t>& free_rows, std::size_t count) {
  if (free_rows.empty()) return static_cast<std::uint32_t>(count);
  const std::uint32_t row = free_rows.back();
  free_rows.pop_back();
  return row;
}

// Writes an existing row, or the one after the last.
template <typename T>
void put(Column<T>& column, std::size_t row, T value) {
  if (row < column.size()) {
    column[row] = value;
  } else {
    column.push_back(value);
  }
}

// Rows that are kept, in order, move up.
template <typename T>
void keep_only(Column<T>& column, const std::vector<std::uint32_t>& kept) {
  for (std::size_t row = 0; row < kept.size(); ++row) column[row] = column[kept[row]];
  column.truncate(kept.size());
}

inline void keep_only(AllocationColumns& rows, const std::vector<std::uint32_t>& kept) {
  std::size_t pending = 0;
  for (const AllocationId row : rows.pending_at_start.span()) {
    const auto place = std::lower_bound(kept.begin(), kept.end(), row.index);
    if (place != kept.end() && *place == row.index)
      rows.pending_at_start[pending++] =
          AllocationId(static_cast<std::size_t>(place - kept.begin()));
  }
  rows.pending_at_start.truncate(pending);
  keep_only(rows.address, kept);
  keep_only(rows.size_bytes, kept);
  keep_only(rows.requested_bytes, kept);
  keep_only(rows.alloc_event, kept);
  keep_only(rows.free_requested_event, kept);
  keep_only(rows.free_completed_event, kept);
  keep_only(rows.stream, kept);
  keep_only(rows.stack, kept);
  keep_only(rows.segment, kept);
}

}  // namespace gpumemprof
