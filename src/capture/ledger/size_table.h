// SizeTable: which address holds how many bytes, for use inside allocator callbacks.
//
// Open addressing in memory that is reserved up front and becomes resident page by page, so that
// nothing is ever allocated, moved or waited for. A table that most programs never need reserves it
// with its first row. Bounded: what does not fit is rejected, and its
// owner must then treat its figures as unknown. Not thread-safe; the owner's lock guards it.
// Address 0 is not a valid key.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpumemprof::capture {

class SizeTable {
 public:
  enum class Reserve : std::uint8_t { up_front, with_first_row };

  // capacity is a power of two; up front, throws std::bad_alloc if the address space is exhausted.
  explicit SizeTable(std::size_t capacity, Reserve reserve = Reserve::up_front);
  SizeTable(const SizeTable&) = delete;
  SizeTable& operator=(const SizeTable&) = delete;
  ~SizeTable();

  // False: full, or the address space is; nothing was stored. The address must not be there yet.
  bool insert(std::uint64_t address, std::uint64_t size_bytes);
  // Removes it; false: it was not there.
  bool take(std::uint64_t address, std::uint64_t& size_bytes);
  void clear();
  template <typename Visit>
  void for_each(Visit&& visit) const {
    if (count_ == 0) return;
    for (std::size_t row = 0; row < capacity_; ++row) {
      if (rows_[row].address != 0) visit(rows_[row].address, rows_[row].size_bytes);
    }
  }
  [[nodiscard]] std::size_t size() const { return count_; }

 private:
  struct Row {
    std::uint64_t address;
    std::uint64_t size_bytes;
  };

  bool reserve();
  [[nodiscard]] std::size_t home(std::uint64_t address) const;
  [[nodiscard]] std::size_t find(std::uint64_t address) const;

  std::size_t capacity_;
  std::size_t count_ = 0;
  Row* rows_ = nullptr;
};

}  // namespace gpumemprof::capture
