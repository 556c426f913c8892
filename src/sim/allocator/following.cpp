// Following a recording: what a request would do, and making happen what the recording says
// happened.
#include <algorithm>

#include "base/error.h"
#include "sim/allocator/allocator.h"

namespace gpumemprof::sim {

ReleasePlan Allocator::plan_release(std::uint64_t requested_bytes, StreamPoolId stream_pool) const {
  ReleasePlan plan;
  if (requested_bytes > kMaxRequestBytes) return plan;
  const Demand demand = demand_for(requested_bytes, stream_pool);
  const FreeSet& set = stream_pools_[stream_pool.index].free[static_cast<std::size_t>(demand.half)];
  if (find_cached(demand) != set.end()) return plan;
  std::uint64_t reserved_bytes = reserved_bytes_;
  if (collects_garbage_) plan.blocks = find_garbage();
  for (const BlockId block : plan.blocks) reserved_bytes -= blocks_[block.index].size_bytes;
  if (fits(demand, reserved_bytes) || is_rejected(demand, reserved_bytes)) return plan;
  if (options_.settings.max_split_bytes != kNoSplitLimit) {
    std::vector<BlockId> oversize;
    const bool suffices = find_oversize(demand, plan.blocks, oversize);
    for (const BlockId block : oversize) reserved_bytes -= blocks_[block.index].size_bytes;
    plan.blocks.insert(plan.blocks.end(), oversize.begin(), oversize.end());
    if (suffices && fits(demand, reserved_bytes)) return plan;
  }
  plan.empties_cache = may_flush(stream_pool);
  return plan;
}

std::vector<DeviceCall> Allocator::plan_empty_cache() const {
  std::vector<BlockId> plain;
  std::vector<BlockId> expandable;
  for (std::size_t pool = 0; pool < pools_.size(); ++pool) {
    if (pool == kDefaultPool.index || pools_[pool].is_released) {
      collect_releasable(PoolIndex(pool), plain, expandable);
    }
  }
  std::vector<DeviceCall> calls;
  const auto add = [&](Action action, const Block& block, std::uint64_t address,
                       std::uint64_t size_bytes) {
    const StreamPoolKey& key = stream_pools_[block.stream_pool.index].key;
    calls.push_back({action, address, size_bytes, key.stream, key.pool});
  };
  for (const BlockId id : plain) {
    const Block& block = blocks_[id.index];
    add(Action::segment_free, block, block.address, block.size_bytes);
  }
  for (const BlockId id : expandable) {
    const Block& block = blocks_[id.index];
    const auto [first, last] = whole_pages(block);
    if (first != last) add(Action::segment_unmap, block, first, last - first);
  }
  return calls;
}

bool Allocator::fits_after(std::span<const AllocationId> completing, std::uint64_t requested_bytes,
                           StreamPoolId stream_pool) const {
  const Demand demand = demand_for(requested_bytes, stream_pool);
  const auto joins = [&](BlockId id) {
    if (id.is_none() || !blocks_[id.index].is_mapped) return false;
    const Block& block = blocks_[id.index];
    return block.is_free() ||
           (block.use == BlockUse::pending &&
            std::find(completing.begin(), completing.end(), block.owner) != completing.end());
  };
  for (const AllocationId owner : completing) {
    const BlockId id = find_owned(owner);
    if (id.is_none() || blocks_[id.index].stream_pool != stream_pool ||
        blocks_[id.index].half != demand.half)
      continue;
    Block joined = blocks_[id.index];
    for (BlockId next = blocks_[id.index].next; joins(next); next = blocks_[next.index].next) {
      joined.size_bytes += blocks_[next.index].size_bytes;
    }
    for (BlockId before = blocks_[id.index].previous; joins(before);
         before = blocks_[before.index].previous) {
      joined.size_bytes += blocks_[before.index].size_bytes;
    }
    if (joined.size_bytes >= demand.block_bytes && is_acceptable(demand, joined)) return true;
  }
  return false;
}

bool Allocator::allocate_at(AllocationId id, std::uint64_t requested_bytes,
                            StreamPoolId stream_pool, std::uint64_t address) {
  if (requested_bytes > kMaxRequestBytes) return false;
  reserve_allocations(id.index + std::size_t{1});
  const Demand demand = demand_for(requested_bytes, stream_pool);
  BlockId found;
  stream_pools_[stream_pool.index].free[static_cast<std::size_t>(demand.half)].for_each(
      [&](const FreeEntry& entry) {
        const Block& block = blocks_[entry.block];
        if (block.address == address && block.size_bytes >= demand.block_bytes)
          found = BlockId(entry.block);
      });
  if (found.is_none()) return false;
  FreeSet& set = stream_pools_[stream_pool.index].free[static_cast<std::size_t>(demand.half)];
  take_cached(set, find_in(set, found), demand, requested_bytes, id);
  check_self();
  return true;
}

bool Allocator::release_segment_at(std::uint64_t address) {
  BlockId found;
  for (const StreamPool& stream_pool : stream_pools_) {
    for (const FreeSet& set : stream_pool.free) {
      set.for_each([&](const FreeEntry& entry) {
        const Block& block = blocks_[entry.block];
        if (block.address == address && !block.is_split() && !block.is_expandable)
          found = BlockId(entry.block);
      });
    }
  }
  if (found.is_none()) return false;
  release_segment(found);
  check_self();
  return true;
}

void Allocator::empty_cache_as_retry() {
  flush();
  ++counters_.num_alloc_retries;
  check_self();
}

void Allocator::complete_first(std::span<const AllocationId> ids) {
  std::vector<AllocationId> ordered(ids.begin(), ids.end());
  ordered.insert(ordered.end(), pending_.begin(),
                 pending_.end());  // a duplicate finds nothing to do
  pending_ = std::move(ordered);
}

void Allocator::adopt_segment(const SegmentState& state, std::span<const BlockState> blocks,
                              StreamPoolId stream_pool, AllocationId first_id) {
  const PoolHalf half = state.is_small ? PoolHalf::small : PoolHalf::large;
  has_adopted_ = true;
  BlockId rest;
  if (state.is_expandable) {
    rest = adopt_run(state, stream_pool, half);
  } else {
    Segment segment;
    segment.address = state.address;
    segment.size_bytes = state.size_bytes;
    segment.stream_pool = stream_pool;
    segment.half = half;
    rest = segments_[new_segment(segment).index].first;
    reserved_bytes_ += state.size_bytes;
    counters_.reserved_bytes.increase(half, state.size_bytes);
    counters_.segment.increase(half, 1);
  }
  bool has_rest = true;
  for (const BlockState& block : blocks) {
    const BlockId id = rest;
    GMP_CHECK(block.size_bytes > 0 && block.size_bytes <= blocks_[id.index].size_bytes);
    has_rest = block.size_bytes < blocks_[id.index].size_bytes;
    if (has_rest) rest = split_tail(id, block.size_bytes);
    if (block.state == BlockStateKind::inactive) {
      cache_adopted(id);
      if (!state.is_expandable && blocks_[id.index].is_split()) {
        counters_.inactive_split.increase(half, 1);
        counters_.inactive_split_bytes.increase(half, block.size_bytes);
      }
      continue;
    }
    reserve_allocations(first_id.index + std::size_t{1});
    Demand demand;
    demand.half = half;
    demand.block_bytes = block.size_bytes;
    const Stat splits = counters_.inactive_split;
    const Stat split_bytes = counters_.inactive_split_bytes;
    hand_out(id, demand, block.requested_bytes, first_id);
    // It was never an inactive block, so no inactive block becomes active.
    counters_.inactive_split = splits;
    counters_.inactive_split_bytes = split_bytes;
    if (block.state == BlockStateKind::active_pending_free) mark_pending(id);
    first_id = AllocationId(first_id.index + std::size_t{1});
  }
  // The listed blocks need not fill the last page under settings other than the recording's.
  if (has_rest) cache_adopted(rest);
  check_self();
}

// A damaged recording may list free blocks side by side; the allocator always merges them.
void Allocator::cache_adopted(BlockId id) {
  const BlockId previous = blocks_[id.index].previous;
  if (!previous.is_none() && blocks_[previous.index].is_free() &&
      blocks_[previous.index].is_mapped) {
    uncache(previous);
    absorb_next(previous);
    id = previous;
  }
  cache(id);
}

// Maps a run of pages inside its expandable segment, which is created if it does not exist yet.
// Where that segment starts is not known; the first run of a stream pool is taken as its start,
// which preserves the page grid.
BlockId Allocator::adopt_run(const SegmentState& state, StreamPoolId stream_pool, PoolHalf half) {
  const auto covers = [&](BlockId id) {
    const Block& block = blocks_[id.index];
    return block.address <= state.address && state.address - block.address < block.size_bytes &&
           block.size_bytes - (state.address - block.address) >= state.size_bytes;
  };
  auto& unmapped = stream_pools_[stream_pool.index].unmapped[static_cast<std::size_t>(half)];
  const auto found = std::find_if(unmapped.begin(), unmapped.end(), covers);
  BlockId id;
  if (found != unmapped.end()) {
    id = *found;
  } else {
    Segment segment;
    segment.page_bytes =
        half == PoolHalf::small ? kSmallPageBytes : options_.settings.large_segment_bytes;
    const std::uint64_t range_bytes = std::max(range_bytes_, state.size_bytes);
    segment.size_bytes =
        (range_bytes + segment.page_bytes - 1) / segment.page_bytes * segment.page_bytes;
    segment.address = state.address;
    segment.stream_pool = stream_pool;
    segment.half = half;
    id = segments_[new_segment(segment).index].first;
    insert_unmapped(id);
  }
  if (const std::uint64_t before = state.address - blocks_[id.index].address; before > 0) {
    id = split_tail(id, before);
    insert_unmapped(id);
  }
  const std::uint64_t calls_before = counters_.num_device_alloc;
  id = map(id, state.size_bytes);
  counters_.num_device_alloc = calls_before;
  uncache(id);
  return id;
}

}  // namespace gpumemprof::sim
