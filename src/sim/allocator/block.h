// The building blocks of the simulated allocator: blocks that tile segments, and stream pools (the
// part of one pool that one stream may use) that own them.
//
//   segment  |  block  |  block (free)  |  block  |       plain: one cudaMalloc
//   segment  |  block  |  block (free)  |  unmapped … |   expandable: a partly mapped range
//
// Blocks of a segment form a doubly linked list by address, through indexes into one vector.
#pragma once

#include <cstdint>
#include <vector>

#include "base/id.h"
#include "event/allocator_settings.h"
#include "sim/allocator/counters.h"
#include "sim/allocator/free_set.h"

namespace gpumemprof::sim {

using BlockId = Id<struct BlockTag>;
using StreamPoolId = Id<struct StreamPoolTag>;
using PoolIndex = Id<struct PoolTag>;

inline constexpr PoolIndex kDefaultPool{std::size_t{0}};

enum class BlockUse : std::uint8_t {
  free,  // cached, in a FreeSet; or unmapped, in the stream pool's list of unmapped blocks
  handed_out,
  pending,  // freed by its owner, another stream still uses it
  retired,  // not a block: the row waits to be reused
};

struct Block {
  std::uint64_t address = 0;
  std::uint64_t size_bytes = 0;
  std::uint64_t requested_bytes = 0;
  std::uint64_t cached_at_search = 0;  // how often its pool had been searched when it was cached
  BlockId previous;
  BlockId next;
  SegmentId segment;
  StreamPoolId stream_pool;
  AllocationId owner;
  BlockUse use = BlockUse::retired;
  PoolHalf half = PoolHalf::small;
  bool is_mapped = true;
  bool is_expandable = false;

  [[nodiscard]] bool is_split() const { return !previous.is_none() || !next.is_none(); }
  [[nodiscard]] bool is_free() const { return use == BlockUse::free; }
};

struct Segment {
  std::uint64_t address = 0;
  std::uint64_t size_bytes = 0;  // of an expandable segment: the address range, mapped or not
  std::uint64_t page_bytes = 0;  // 0: plain
  std::uint64_t order = 0;       // how many segments were created before it
  BlockId first;
  StreamPoolId stream_pool;
  PoolHalf half = PoolHalf::small;
  bool is_live = false;

  [[nodiscard]] bool is_expandable() const { return page_bytes != 0; }
};

// Block sizes in the units of the free sets.
constexpr std::uint32_t size_units(std::uint64_t bytes) {
  return static_cast<std::uint32_t>(bytes / kMinBlockBytes);
}

// Identifies a stream pool. Blocks never change stream pools.
struct StreamPoolKey {
  std::uint32_t stream = 0;
  PoolIndex pool = kDefaultPool;
  bool operator==(const StreamPoolKey&) const = default;
};

enum class PoolKind : std::uint8_t {
  standard,  // used by default
  graph,     // created by a graph capture
  user,      // created by the user
};

struct StreamPool {
  StreamPoolKey key;
  std::array<FreeSet, 2> free;                   // by half
  std::array<std::vector<BlockId>, 2> unmapped;  // by half; in address order
};

struct AllocatorPool {
  PoolKind kind = PoolKind::standard;
  bool is_released = false;  // a private pool no longer in use: its memory may be returned
  std::array<std::uint64_t, 2> searches{};  // by half
  std::vector<StreamPoolId> stream_pools;
};

}  // namespace gpumemprof::sim
