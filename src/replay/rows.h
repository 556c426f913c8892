// Rows of a table whose gone rows may be used again.
#pragma once

#include <cstdint>
#include <vector>

#include "base/column.h"

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

}  // namespace gpumemprof
