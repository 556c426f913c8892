// Rows of a table whose gone rows may be used again.
#pragma once

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

// Rows of a column that are kept move up.
template <typename T>
void keep_only(Column<T>& column, const std::vector<bool>& is_kept) {
  std::size_t kept = 0;
  for (std::size_t row = 0; row < column.size(); ++row) {
    if (is_kept[row]) column[kept++] = column[row];
  }
  column.truncate(kept);
}

// The same for all columns; returns by old row the new one, or AllocationId::kNone.
inline Column<std::uint32_t> keep_only(AllocationColumns& rows, const std::vector<bool>& is_kept) {
  Column<std::uint32_t> places;
  places.reserve(rows.size());
  std::uint32_t kept = 0;
  for (std::size_t row = 0; row < rows.size(); ++row)
    places.push_unchecked(is_kept[row] ? kept++ : AllocationId::kNone);
  std::size_t pending = 0;
  for (const AllocationId row : rows.pending_at_start.span()) {
    if (places[row.index] != AllocationId::kNone)
      rows.pending_at_start[pending++] = AllocationId(places[row.index]);
  }
  rows.pending_at_start.truncate(pending);
  keep_only(rows.address, is_kept);
  keep_only(rows.size_bytes, is_kept);
  keep_only(rows.requested_bytes, is_kept);
  keep_only(rows.alloc_event, is_kept);
  keep_only(rows.free_requested_event, is_kept);
  keep_only(rows.free_completed_event, is_kept);
  keep_only(rows.stream, is_kept);
  keep_only(rows.stack, is_kept);
  keep_only(rows.segment, is_kept);
  return places;
}

}  // namespace gpumemprof
