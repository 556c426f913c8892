// FreeSet: the cached blocks one stream may reuse, ordered by size and then by the allocator's
// tie-break.
//
// A sorted array split into chunks: the usual set of a few dozen blocks is one chunk, so a search
// is a few compares and a change moves a few cache lines; even with a hundred thousand blocks an
// operation costs no more than one chunk. Entries are not allocated one by one; chunks are reused.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace gpumemprof::sim {

struct FreeEntry {
  std::uint64_t tie = 0;         // address, or segment order and offset
  std::uint32_t size_units = 0;  // block size in units of 512 bytes
  std::uint32_t block = 0;

  friend bool operator<(const FreeEntry& a, const FreeEntry& b) {
    if (a.size_units != b.size_units) return a.size_units < b.size_units;
    // Only a forged recording has two blocks at the same place.
    return a.tie != b.tie ? a.tie < b.tie : a.block < b.block;
  }
};

class FreeSet {
 public:
  struct Position {
    std::uint32_t chunk = 0;
    std::uint32_t slot = 0;
    bool operator==(const Position&) const = default;
  };

  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] std::size_t size() const { return size_; }

  // The first entry of at least this size; end() where there is none.
  [[nodiscard]] Position find_fit(std::uint32_t size_units) const;
  [[nodiscard]] Position begin() const { return {0, 0}; }
  [[nodiscard]] Position end() const { return {static_cast<std::uint32_t>(chunks_.size()), 0}; }
  [[nodiscard]] Position next(Position position) const;
  [[nodiscard]] Position previous(Position position) const;  // position must not be begin()
  [[nodiscard]] const FreeEntry& at(Position position) const {
    return chunks_[position.chunk]->entries[position.slot];
  }

  // The position of the entry with this size, tie and block; end() where there is none.
  [[nodiscard]] Position find(const FreeEntry& entry) const;

  void insert(const FreeEntry& entry);
  void erase(Position position);
  // Replaces the entry at position; cheaper than erase and insert.
  void replace(Position position, const FreeEntry& entry);

  template <typename Visit>
  void for_each(Visit&& visit) const {
    for (const auto& chunk : chunks_) {
      for (std::uint32_t slot = 0; slot < chunk->count; ++slot) visit(chunk->entries[slot]);
    }
  }

  [[nodiscard]] bool is_valid() const;

 private:
  static constexpr std::uint32_t kChunkEntries = 128;
  static constexpr std::uint32_t kFewEntries = 16;

  struct Chunk {
    std::uint32_t count = 0;
    std::array<FreeEntry, kChunkEntries> entries;
  };

  // The first chunk whose last entry satisfies a condition that holds from some entry on.
  template <typename Holds>
  [[nodiscard]] std::uint32_t first_chunk(Holds holds_for_last) const;
  [[nodiscard]] std::uint32_t chunk_for(const FreeEntry& entry) const;
  [[nodiscard]] Position find_place(const FreeEntry& entry) const;
  void split_chunk(std::uint32_t index);
  void join_small_chunk(std::uint32_t index);

  std::vector<std::unique_ptr<Chunk>> chunks_;  // none is empty
  std::unique_ptr<Chunk> spare_;  // a set that empties and refills needs no heap allocation
  std::size_t size_ = 0;
};

}  // namespace gpumemprof::sim
