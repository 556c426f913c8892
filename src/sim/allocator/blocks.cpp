// Blocks as rows: created, split, merged, and kept in the sets of free blocks.
#include "base/error.h"
#include "sim/allocator/allocator.h"

namespace gpumemprof::sim {

BlockId Allocator::new_block(const Block& block) {
  if (retired_blocks_.empty()) {
    blocks_.push_back(block);
    return BlockId(blocks_.size() - 1);
  }
  const BlockId id = retired_blocks_.back();
  retired_blocks_.pop_back();
  blocks_[id.index] = block;
  return id;
}

void Allocator::retire_block(BlockId id) {
  blocks_[id.index].use = BlockUse::retired;
  blocks_[id.index].owner = AllocationId();
  retired_blocks_.push_back(id);
}

// The block keeps its front; the new block after it takes the rest. Neither is in a set.
BlockId Allocator::split_tail(BlockId id, std::uint64_t front_bytes) {
  Block tail = blocks_[id.index];
  tail.address += front_bytes;
  tail.size_bytes -= front_bytes;
  tail.requested_bytes = 0;
  tail.previous = id;
  const BlockId tail_id = new_block(tail);
  if (!tail.next.is_none()) blocks_[tail.next.index].previous = tail_id;
  blocks_[id.index].next = tail_id;
  blocks_[id.index].size_bytes = front_bytes;
  return tail_id;
}

void Allocator::absorb_next(BlockId id) {
  Block& block = blocks_[id.index];
  const BlockId absorbed = block.next;
  block.size_bytes += blocks_[absorbed.index].size_bytes;
  block.next = blocks_[absorbed.index].next;
  if (!block.next.is_none()) blocks_[block.next.index].previous = id;
  retire_block(absorbed);
}

FreeEntry Allocator::entry_of(BlockId id) const {
  const Block& block = blocks_[id.index];
  std::uint64_t tie = block.address;
  if (options_.rules.tie_break == TieBreak::oldest_segment) {
    const Segment& segment = segments_[block.segment.index];
    tie = segment.order << 31 | (block.address - segment.address) / kMinBlockBytes;
  }
  return {tie, size_units(block.size_bytes), id.index};
}

void Allocator::note_cached(Block& block) {
  const std::uint32_t pool = stream_pools_[block.stream_pool.index].key.pool.index;
  block.cached_at_search = pools_[pool].searches[static_cast<std::size_t>(block.half)];
}

void Allocator::cache(BlockId id) {
  note_cached(blocks_[id.index]);
  set_of(blocks_[id.index]).insert(entry_of(id));
}

void Allocator::uncache(BlockId id) {
  FreeSet& set = set_of(blocks_[id.index]);
  set.erase(find_in(set, id));
}

FreeSet::Position Allocator::find_in(const FreeSet& set, BlockId id) const {
  const FreeSet::Position position = set.find(entry_of(id));
  GMP_CHECK(position != set.end());
  return position;
}

void Allocator::log_call(Action action, std::uint64_t address, std::uint64_t size_bytes,
                         StreamPoolId stream_pool) {
  if (!keeps_calls_) return;
  const StreamPoolKey& key = stream_pools_[stream_pool.index].key;
  calls_.push_back({action, address, size_bytes, key.stream, key.pool});
}

}  // namespace gpumemprof::sim
