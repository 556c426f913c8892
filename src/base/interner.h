// Interner: string → StringId, each string stored once. Id 0 is always the empty string.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/column.h"
#include "base/flat_map.h"
#include "base/id.h"

namespace gpumemprof {

class Interner {
 public:
  Interner();

  StringId intern(std::string_view text);
  [[nodiscard]] std::string_view text(StringId id) const;
  [[nodiscard]] std::size_t size() const { return offsets_.size() - 1; }
  [[nodiscard]] std::size_t memory_bytes() const;

  // All strings back to back, and where each starts (size() + 1 entries): Arrow's string layout.
  [[nodiscard]] const Column<char>& bytes() const { return bytes_; }
  [[nodiscard]] const Column<std::int64_t>& offsets() const { return offsets_; }

 private:
  Column<char> bytes_;
  Column<std::int64_t> offsets_;
  Column<std::uint32_t> next_same_hash_;
  FlatMap<std::uint32_t> first_by_hash_;
};

// A good enough 64-bit hash of a few bytes; never FlatMap's empty key.
std::uint64_t hash_bytes(std::string_view bytes);

}  // namespace gpumemprof
