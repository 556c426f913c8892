#include "report/arrow/values.h"

#include <algorithm>
#include <cstdint>
#include <new>

namespace gpumemprof::arrow {

Buffer zeroed_buffer(std::size_t size_bytes) {
  // Never null: some readers treat a null buffer of size 0 as missing.
  Buffer buffer(std::calloc(std::max<std::size_t>(size_bytes, 1), 1));
  if (buffer == nullptr) throw std::bad_alloc();
  return buffer;
}

Values row_numbers(std::size_t length) {
  Values values;
  values.length = length;
  Buffer buffer = zeroed_buffer(length * sizeof(std::uint32_t));
  auto* numbers = static_cast<std::uint32_t*>(buffer.get());
  for (std::size_t row = 0; row < length; ++row) numbers[row] = static_cast<std::uint32_t>(row);
  values.buffers.push_back(values.own(std::move(buffer)));
  return values;
}

Values all_null(std::size_t length, std::size_t value_size_bytes) {
  Values values;
  values.length = length;
  values.null_count = length;
  values.buffers[0] = values.own(zeroed_buffer((length + 7) / 8));
  values.buffers.push_back(values.own(zeroed_buffer(length * value_size_bytes)));
  return values;
}

Values packed_bools(const Column<std::uint8_t>& column) {
  Values values;
  values.length = column.size();
  Buffer buffer = zeroed_buffer((column.size() + 7) / 8);
  auto* bits = static_cast<std::uint8_t*>(buffer.get());
  for (std::size_t row = 0; row < column.size(); ++row) {
    bits[row / 8] =
        static_cast<std::uint8_t>(bits[row / 8] | ((column[row] != 0 ? 1U : 0U) << (row % 8)));
  }
  values.buffers.push_back(values.own(std::move(buffer)));
  return values;
}

std::string_view text_at(const Values& texts, std::size_t row) {
  const auto* offsets = static_cast<const std::int64_t*>(texts.buffers[1]);
  return {static_cast<const char*>(texts.buffers[2]) + offsets[row],
          static_cast<std::size_t>(offsets[row + 1] - offsets[row])};
}

}  // namespace gpumemprof::arrow
