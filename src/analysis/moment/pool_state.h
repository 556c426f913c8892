// PoolState: the allocator's pool at one moment: every segment, the blocks in it and the gaps
// between them. Every analysis of what is reserved, in use or free at a moment reads this.
//
// Blocks tile their segments: a free block is whatever lies between two blocks in use, since the
// allocator merges free neighbours. A device without a pool (CPU) has no segments.
#pragma once

#include <span>
#include <vector>

#include "store/store.h"

namespace gpumemprof {

struct PoolBlock {
  std::uint64_t address = 0;
  std::uint64_t size_bytes = 0;
  AllocationId allocation;  // none: free
  bool is_waiting = false;  // freed, but a stream still uses it

  [[nodiscard]] bool is_free() const { return allocation.is_none(); }
};

struct PoolSegment {
  SegmentState state;
  std::uint64_t free_bytes = 0;
  AllocationId oldest;  // the block that has been in it longest; none: nothing is in it
  std::uint32_t first_block = 0;
  std::uint32_t block_count = 0;

  [[nodiscard]] bool is_used() const { return !oldest.is_none(); }
  // The block that keeps the segment's free memory from being returned; none if nothing is free.
  [[nodiscard]] AllocationId pin() const { return free_bytes == 0 ? AllocationId() : oldest; }
};

struct PoolState {
  std::vector<PoolSegment> segments;  // in address order; adjacent mapped pieces are one
  std::vector<PoolBlock> blocks;      // in address order, free ones included
  // Blocks in use that lie in no segment: all of a device without a pool, else of a damaged
  // recording. Not counted below.
  std::vector<PoolBlock> strays;
  std::uint64_t reserved_bytes = 0;
  std::uint64_t allocated_bytes = 0;
  std::uint64_t waiting_bytes = 0;
  std::uint64_t free_bytes = 0;

  [[nodiscard]] std::span<const PoolBlock> blocks_of(const PoolSegment& segment) const {
    return std::span(blocks).subspan(segment.first_block, segment.block_count);
  }
};

// By a scan of all allocations.
PoolState pool_state_at(const DeviceRecord& record, Moment moment);
// If the allocations active at the moment are known already (LiveRows), in any order.
PoolState pool_state_at(const DeviceRecord& record, Moment moment,
                        std::vector<AllocationId> active);

// The same as torch lists it in a snapshot.
ListedState listed_state(const DeviceRecord& record, const PoolState& pool);

}  // namespace gpumemprof
