// Values: one column of one batch, before it is exported: memory that belongs to the store, or was
// allocated for it.
//
// Nulls are sentinel values in the store; here they become a bitmap of one bit per row, and no
// bitmap where there are none.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <vector>

#include "base/column.h"

namespace gpumemprof::arrow {

struct FreeMemoryBlock {
  void operator()(void* block) const { std::free(block); }
};
using Buffer = std::unique_ptr<void, FreeMemoryBlock>;

// Zeroed by the system: pages that are never written take no memory.
Buffer zeroed_buffer(std::size_t size_bytes);

struct Values {
  std::size_t length = 0;
  std::size_t null_count = 0;
  std::vector<const void*> buffers = {nullptr};  // the bitmap first, as the ABI requires
  std::vector<Buffer> owned;                     // those that do not belong to the store

  const void* own(Buffer buffer) {
    owned.push_back(std::move(buffer));
    return owned.back().get();
  }
};

Values row_numbers(std::size_t length);
Values all_null(std::size_t length, std::size_t value_size_bytes);
Values packed_bools(const Column<std::uint8_t>& column);

// The column's own memory.
template <typename T>
Values borrowed(const Column<T>& column) {
  Values values;
  values.length = column.size();
  values.buffers.push_back(column.data());
  return values;
}

template <typename IsNull>
void mark_nulls(Values& values, IsNull is_null) {
  std::size_t row = 0;
  while (row < values.length && !is_null(row)) ++row;
  if (row == values.length) return;
  Buffer bitmap = zeroed_buffer((values.length + 7) / 8);
  auto* bits = static_cast<std::uint8_t*>(bitmap.get());
  for (row = 0; row < values.length; ++row) {
    const bool is_null_here = is_null(row);
    values.null_count += is_null_here ? 1 : 0;
    bits[row / 8] =
        static_cast<std::uint8_t>(bits[row / 8] | ((is_null_here ? 0U : 1U) << (row % 8)));
  }
  values.buffers[0] = values.own(std::move(bitmap));
}

// The same, with one value reserved for "none".
template <typename T>
Values borrowed_with_none(const Column<T>& column, T none) {
  Values values = borrowed(column);
  mark_nulls(values, [&](std::size_t row) { return column[row] == none; });
  return values;
}

// A column that is empty where no row has a value.
template <typename T>
Values borrowed_or_absent(const Column<T>& column, T none, std::size_t length) {
  return column.empty() ? all_null(length, sizeof(T)) : borrowed_with_none(column, none);
}

// A value computed for each row; null where it equals `none`.
template <typename T, typename ValueAt>
Values made_with_none(std::size_t length, T none, ValueAt value_at) {
  Values values;
  values.length = length;
  Buffer buffer = zeroed_buffer(length * sizeof(T));
  auto* made = static_cast<T*>(buffer.get());
  for (std::size_t row = 0; row < length; ++row) made[row] = value_at(row);
  values.buffers.push_back(values.own(std::move(buffer)));
  mark_nulls(values, [&](std::size_t row) { return made[row] == none; });
  return values;
}

// Texts copied back to back: `text_at(row)` for each row.
template <typename TextAt>
Values copied_texts(std::size_t length, TextAt text_at) {
  std::size_t size_bytes = 0;
  for (std::size_t row = 0; row < length; ++row) size_bytes += text_at(row).size();
  Buffer offsets = zeroed_buffer((length + 1) * sizeof(std::int64_t));
  Buffer bytes = zeroed_buffer(size_bytes);
  auto* offset = static_cast<std::int64_t*>(offsets.get());
  auto* byte = static_cast<char*>(bytes.get());
  for (std::size_t row = 0; row < length; ++row) {
    const std::string_view text = text_at(row);
    byte += text.copy(byte, text.size());
    offset[row + 1] = offset[row] + static_cast<std::int64_t>(text.size());
  }
  Values values;
  values.length = length;
  values.buffers.push_back(values.own(std::move(offsets)));
  values.buffers.push_back(values.own(std::move(bytes)));
  return values;
}

// One of them, where none is null.
std::string_view text_at(const Values& texts, std::size_t row);

}  // namespace gpumemprof::arrow
