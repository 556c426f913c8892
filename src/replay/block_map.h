// BlockMap: the blocks of one device as the allocator keeps them. Each segment is a chain of
// blocks, free neighbours are always merged, and a block is found by its start address.
//
//   plain segment        [ used | free      | used | free ]      links end at the segment's edges
//   expandable segment   [ used | free ]  (unmapped)  [ free ]   links end at unmapped pages
//
// Every call says whether the recording and the map agree; a call that returns false or kNoBlock
// changed nothing.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "base/flat_map.h"
#include "event/event.h"

namespace gpumemprof {

inline constexpr std::uint32_t kNoBlock = std::numeric_limits<std::uint32_t>::max();

struct Block {
  std::uint64_t address = 0;
  std::uint64_t size_bytes = 0;
  std::uint32_t previous = kNoBlock;
  std::uint32_t next = kNoBlock;
  AllocationId allocation;  // none: free
  SegmentId segment;
  bool is_expandable = false;
  bool is_pending = false;  // freed, but a stream still uses it

  [[nodiscard]] bool is_free() const { return allocation.is_none(); }
};

class BlockMap {
 public:
  // The block that starts at address, or kNoBlock.
  [[nodiscard]] std::uint32_t find(std::uint64_t address) const {
    const std::uint32_t* found = by_address_.find(address);
    return found == nullptr ? kNoBlock : *found;
  }
  Block& operator[](std::uint32_t block) { return blocks_[block]; }
  const Block& operator[](std::uint32_t block) const { return blocks_[block]; }

  // Reserved memory is added and removed.
  bool add_segment(std::uint64_t address, std::uint64_t size_bytes, SegmentId segment);
  bool remove_segment(std::uint64_t address, std::uint64_t size_bytes);
  bool map_pages(std::uint64_t address, std::uint64_t size_bytes, SegmentId segment);
  bool unmap_pages(std::uint64_t address, std::uint64_t size_bytes);

  // Hands out the first size_bytes of a free block; the rest stays free.
  void take(std::uint32_t block, std::uint64_t size_bytes, AllocationId allocation);
  // Makes a block free and merges it with free neighbours.
  void release(std::uint32_t block);
  // Splits a free block into two free blocks, the second starting at address. Only used to follow a
  // recording that contradicts the merging rule.
  std::uint32_t split_free(std::uint32_t block, std::uint64_t address);

  // Lets a block in use take over the front of the free block after it; false where that block is
  // not free or is too small.
  bool grow(std::uint32_t block, std::uint64_t size_bytes);

  // The block that contains address, found by walking its segment: slow, for contradictions only.
  [[nodiscard]] std::uint32_t find_containing(std::uint64_t address) const;
  // Whether a plain segment could be returned: one free block and nothing else.
  [[nodiscard]] bool has_unsplit_free_segment() const;

  // Every chain is linked both ways, tiles its segment without gaps and holds no two free
  // neighbours.
  [[nodiscard]] bool is_valid() const;

 private:
  std::uint32_t new_block(std::uint64_t address, std::uint64_t size_bytes, SegmentId segment,
                          bool is_expandable);
  void drop_block(std::uint32_t block);
  void merge_with_next(std::uint32_t block);
  void link(std::uint32_t first, std::uint32_t second);
  [[nodiscard]] bool overlaps(std::uint64_t address, std::uint64_t size_bytes) const;

  struct Extent {
    std::uint64_t end = 0;
    bool is_expandable = false;
  };

  std::vector<Block> blocks_;
  std::vector<std::uint32_t> unused_;
  FlatMap<std::uint32_t> by_address_;
  std::map<std::uint64_t, Extent> extents_;  // start → plain segment or contiguous mapped run
};

}  // namespace gpumemprof
