#include "sim/allocator/allocator.h"

#include <algorithm>

#include "base/error.h"
#include "event/rules/split_rule.h"

namespace gpumemprof::sim {
namespace {

// Address range reserved by an expandable segment when the device's size is not known: more than
// any device has.
constexpr std::uint64_t kUnknownDeviceRangeBytes = 256 * kGiB;

}  // namespace

Allocator::Allocator(const AllocatorOptions& options, AddressSource& addresses)
    : options_(options), addresses_(&addresses) {
  options_.settings.settle();
  const std::uint64_t total = options_.device_total_bytes;
  range_bytes_ =
      total == 0 ? kUnknownDeviceRangeBytes : std::min(total + (total + 7) / 8, kMaxRequestBytes);
  set_limit(options_.limit);
  add_pool(PoolKind::standard);
}

void Allocator::set_limit(const MemoryLimit& limit) {
  options_.limit = limit;
  collects_garbage_ =
      limit.allowed_bytes != kNoLimit && options_.settings.garbage_collection_threshold > 0;
  has_adopted_ |= reserved_bytes_ > std::min(limit.allowed_bytes, limit.device_bytes);
}

PoolIndex Allocator::add_pool(PoolKind kind) {
  pools_.emplace_back();
  pools_.back().kind = kind;
  return PoolIndex(pools_.size() - 1);
}

StreamPoolId Allocator::add_stream_pool(const StreamPoolKey& key) {
  GMP_CHECK(key.pool.index < pools_.size());
  const StreamPoolId id(stream_pools_.size());
  stream_pools_.emplace_back();
  stream_pools_.back().key = key;
  pools_[key.pool.index].stream_pools.push_back(id);
  return id;
}

void Allocator::reserve_allocations(std::size_t count) {
  if (count > block_of_.size()) block_of_.resize(count, BlockId());
}

Allocator::Demand Allocator::demand_for(std::uint64_t requested_bytes,
                                        StreamPoolId stream_pool) const {
  Demand demand;
  demand.stream_pool = stream_pool;
  demand.block_bytes = options_.settings.round_size(requested_bytes);
  demand.half = demand.block_bytes <= kSmallPoolMaxBytes ? PoolHalf::small : PoolHalf::large;
  demand.segment_bytes = segment_bytes_for(demand.block_bytes, options_.settings);
  return demand;
}

bool Allocator::allocate(AllocationId id, std::uint64_t requested_bytes, StreamPoolId stream_pool) {
  reserve_allocations(id.index + std::size_t{1});
  if (requested_bytes > kMaxRequestBytes) {
    ++counters_.num_ooms;
    return false;
  }
  const Demand demand = demand_for(requested_bytes, stream_pool);
  const auto half = static_cast<std::size_t>(demand.half);
  StreamPool& state = stream_pools_[stream_pool.index];
  AllocatorPool& pool = pools_[state.key.pool.index];
  ++pool.searches[half];
  if (pool.is_released) [[unlikely]]
    pool.is_released = false;  // it was in use after all
  FreeSet& set = state.free[half];
  const FreeSet::Position position = find_cached(demand);
  if (position != set.end()) {
    take_cached(set, position, demand, requested_bytes, id);
    check_self();
    return true;
  }
  const BlockId block = take_fresh(demand);
  if (block.is_none()) {
    ++counters_.num_ooms;
  } else {
    const BlockId rest = hand_out(block, demand, requested_bytes, id);
    if (!rest.is_none()) set.insert(entry_of(rest));
  }
  check_self();
  return !block.is_none();
}

void Allocator::take_cached(FreeSet& set, FreeSet::Position position, const Demand& demand,
                            std::uint64_t requested_bytes, AllocationId id) {
  const BlockId rest = hand_out(BlockId(set.at(position).block), demand, requested_bytes, id);
  if (rest.is_none()) {
    set.erase(position);
  } else {
    set.replace(position, entry_of(rest));
  }
}

FreeSet::Position Allocator::find_cached(const Demand& demand) const {
  const FreeSet& set =
      stream_pools_[demand.stream_pool.index].free[static_cast<std::size_t>(demand.half)];
  FreeSet::Position position = set.find_fit(size_units(demand.block_bytes));
  if (position == set.end()) return position;
  const auto block_at = [&](FreeSet::Position where) -> const Block& {
    return blocks_[set.at(where).block];
  };
  if (block_at(position).is_expandable) {
    if (options_.settings.expandable_segments) {
      // A block that can grow counts with the size it can grow to: a larger block that cannot grow
      // fits better.
      const auto room = [this](const Block& block) {
        const bool grows = !block.next.is_none() && !blocks_[block.next.index].is_mapped;
        return block.size_bytes + (grows ? blocks_[block.next.index].size_bytes : 0);
      };
      for (auto next = set.next(position); block_at(position).is_expandable && next != set.end() &&
                                           room(block_at(next)) < room(block_at(position));
           next = set.next(next)) {
        position = next;
      }
    } else {
      // The mode was switched off while expandable segments were still live: skip them.
      do {
        position = set.next(position);
      } while (position != set.end() && block_at(position).is_expandable);
      if (position == set.end()) return position;
    }
  }
  return is_acceptable(demand, block_at(position)) ? position : set.end();
}

bool Allocator::is_acceptable(const Demand& demand, const Block& block) const {
  const AllocatorSettings& settings = options_.settings;
  if (demand.block_bytes < settings.max_split_bytes)
    return block.size_bytes < settings.max_split_bytes;
  return block.size_bytes < demand.block_bytes + settings.max_non_split_rounding_bytes;
}

bool Allocator::splits(const Demand& demand, const Block& block) const {
  const AllocatorSettings& settings = options_.settings;
  const SegmentMode mode =
      settings.expandable_segments ? SegmentMode::expandable : SegmentMode::plain;
  return splits_block(settings, mode, demand.block_bytes, block.size_bytes);
}

// Returns what was split off, which is free and not yet in its set; none where nothing was split.
BlockId Allocator::hand_out(BlockId id, const Demand& demand, std::uint64_t requested_bytes,
                            AllocationId owner) {
  const PoolHalf half = demand.half;
  const bool was_split = blocks_[id.index].is_split();
  const bool counts_splits = !blocks_[id.index].is_expandable;
  BlockId rest;
  if (splits(demand, blocks_[id.index])) {
    rest = split_tail(id, demand.block_bytes);
    note_cached(blocks_[rest.index]);
    if (counts_splits && was_split) {
      counters_.inactive_split_bytes.decrease(half, demand.block_bytes);
    } else if (counts_splits) {
      counters_.inactive_split_bytes.increase(half, blocks_[rest.index].size_bytes);
      counters_.inactive_split.increase(half, 1);
    }
  } else if (counts_splits && was_split) {
    counters_.inactive_split_bytes.decrease(half, blocks_[id.index].size_bytes);
    counters_.inactive_split.decrease(half, 1);
  }
  Block& block = blocks_[id.index];
  block.use = BlockUse::handed_out;
  block.requested_bytes = requested_bytes;
  block.owner = owner;
  block_of_[owner.index] = id;
  counters_.allocation.increase(half, 1);
  counters_.allocated_bytes.increase(half, block.size_bytes);
  counters_.active.increase(half, 1);
  counters_.active_bytes.increase(half, block.size_bytes);
  counters_.requested_bytes.increase(half, requested_bytes);
  if (block.size_bytes >= options_.settings.max_split_bytes) [[unlikely]]
    counters_.oversize_allocations.increase(half, 1);
  return rest;
}

void Allocator::mark_freed(Block& block) {
  counters_.allocation.decrease(block.half, 1);
  counters_.allocated_bytes.decrease(block.half, block.size_bytes);
  if (block.size_bytes >= options_.settings.max_split_bytes) [[unlikely]]
    counters_.oversize_allocations.decrease(block.half, 1);
}

void Allocator::free(AllocationId id) {
  const BlockId block = find_owned(id);
  if (block.is_none() || blocks_[block.index].use != BlockUse::handed_out) return;
  mark_freed(blocks_[block.index]);
  complete(block);
  check_self();
}

void Allocator::request_free(AllocationId id) {
  const BlockId block = find_owned(id);
  if (block.is_none() || blocks_[block.index].use != BlockUse::handed_out) return;
  mark_pending(block);
  check_self();
}

void Allocator::mark_pending(BlockId id) {
  Block& block = blocks_[id.index];
  mark_freed(block);
  block.use = BlockUse::pending;
  // Completed ones are dropped once they are the majority, so that the list stays proportional to
  // what is pending.
  if (pending_.size() > 64 + 2 * pending_count_) {
    std::erase_if(pending_, [this](AllocationId pending) { return find_owned(pending).is_none(); });
  }
  pending_.push_back(block.owner);
  ++pending_count_;
}

void Allocator::complete_free(AllocationId id) {
  const BlockId block = find_owned(id);
  if (block.is_none() || blocks_[block.index].use != BlockUse::pending) return;
  --pending_count_;
  complete(block);
  check_self();
}

// Merges with free neighbours and caches the result. Only a mapped, free neighbour merges with a
// mapped block.
void Allocator::complete(BlockId id) {
  Block* block = &blocks_[id.index];
  const PoolHalf half = block->half;
  counters_.active.decrease(half, 1);
  counters_.active_bytes.decrease(half, block->size_bytes);
  counters_.requested_bytes.decrease(half, block->requested_bytes);
  block->owner = AllocationId();
  block->use = BlockUse::free;
  std::int64_t split_blocks = 0;
  std::int64_t split_bytes = 0;
  const auto merges = [this](BlockId neighbour) {
    return !neighbour.is_none() && blocks_[neighbour.index].is_free() &&
           blocks_[neighbour.index].is_mapped;
  };
  FreeSet& set = set_of(*block);
  FreeSet::Position place = set.end();
  const BlockId previous = block->previous;
  if (merges(block->next)) {
    split_blocks -= 1;
    split_bytes -= static_cast<std::int64_t>(blocks_[block->next.index].size_bytes);
    if (merges(previous)) {
      uncache(block->next);
    } else {
      place = find_in(set, block->next);
    }
    absorb_next(id);
  }
  if (merges(previous)) {
    id = previous;
    split_blocks -= 1;
    split_bytes -= static_cast<std::int64_t>(blocks_[id.index].size_bytes);
    place = find_in(set, id);
    absorb_next(id);
  }
  note_cached(blocks_[id.index]);
  if (place == set.end()) {
    set.insert(entry_of(id));
  } else {
    set.replace(place, entry_of(id));
  }
  block = &blocks_[id.index];
  if (block->is_expandable) return;
  if (block->is_split()) {
    split_blocks += 1;
    split_bytes += static_cast<std::int64_t>(block->size_bytes);
  }
  counters_.inactive_split.change(half, split_blocks);
  counters_.inactive_split_bytes.change(half, split_bytes);
}

Placement Allocator::placement(AllocationId id) const {
  const BlockId owned = find_owned(id);
  if (owned.is_none()) return {};
  const Block& block = blocks_[owned.index];
  return {block.segment, block.address, block.address - segments_[block.segment.index].address,
          block.size_bytes};
}

}  // namespace gpumemprof::sim
