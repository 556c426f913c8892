// Memory taken from and returned to the device: new segments, garbage collection, the retry,
// empty_cache.
#include <algorithm>

#include "base/error.h"
#include "sim/allocator/allocator.h"

namespace gpumemprof::sim {

BlockId Allocator::take_fresh(const Demand& demand) {
  if (collects_garbage_) {
    for (const BlockId block : find_garbage()) release_segment(block);
  }
  BlockId block = grow(demand);
  if (!block.is_none() || is_rejected(demand, reserved_bytes_)) return block;
  if (options_.settings.max_split_bytes != kNoSplitLimit) {
    std::vector<BlockId> oversize;
    const bool suffices = find_oversize(demand, {}, oversize);
    for (const BlockId found : oversize) release_segment(found);
    if (suffices) block = grow(demand);
    if (!block.is_none()) return block;
  }
  if (!may_flush(demand.stream_pool)) return block;
  flush();
  ++counters_.num_alloc_retries;
  return grow(demand);
}

// With throw_on_cudamalloc_oom a request above the process's limit fails immediately.
bool Allocator::is_rejected(const Demand& demand, std::uint64_t reserved_bytes) const {
  return options_.settings.throw_on_device_oom && exceeds_limit(demand, reserved_bytes);
}

// A capture never empties the cache, and until torch 2.12 every pool scope counted as one.
bool Allocator::may_flush(StreamPoolId stream_pool) const {
  const PoolKind kind = pools_[stream_pools_[stream_pool.index].key.pool.index].kind;
  return kind == PoolKind::standard || (kind == PoolKind::user && options_.rules.user_pools_flush);
}

bool Allocator::expands(const Demand& demand) const {
  const bool is_private = stream_pools_[demand.stream_pool.index].key.pool != kDefaultPool;
  return options_.settings.expandable_segments &&
         (!is_private || options_.rules.private_pools_expand);
}

// The process's own limit is checked with a whole segment even where only some pages are missing.
bool Allocator::exceeds_limit(const Demand& demand, std::uint64_t reserved_bytes) const {
  const std::uint64_t allowed_bytes = options_.limit.allowed_bytes;
  return demand.segment_bytes > allowed_bytes ||
         reserved_bytes > allowed_bytes - demand.segment_bytes;
}

bool Allocator::fits(const Demand& demand, std::uint64_t reserved_bytes) const {
  if (exceeds_limit(demand, reserved_bytes)) return false;
  const MemoryLimit& limit = options_.limit;
  if (limit.device_bytes == kNoLimit) return true;
  const std::uint64_t needed =
      expands(demand) ? find_site(demand).missing_bytes : demand.segment_bytes;
  return needed <= limit.device_bytes && reserved_bytes <= limit.device_bytes - needed;
}

BlockId Allocator::grow(const Demand& demand) {
  if (!fits(demand, reserved_bytes_)) return {};
  return expands(demand) ? grow_expandable(demand) : grow_plain(demand);
}

BlockId Allocator::grow_plain(const Demand& demand) {
  const std::uint64_t size_bytes = demand.segment_bytes;
  Segment segment;
  segment.address = addresses_->place_segment(size_bytes);
  segment.size_bytes = size_bytes;
  segment.stream_pool = demand.stream_pool;
  segment.half = demand.half;
  const SegmentId id = new_segment(segment);
  reserved_bytes_ += size_bytes;
  counters_.reserved_bytes.increase(demand.half, size_bytes);
  counters_.segment.increase(demand.half, 1);
  ++counters_.num_device_alloc;
  if (size_bytes >= options_.settings.max_split_bytes)
    counters_.oversize_segments.increase(demand.half, 1);
  log_call(Action::segment_alloc, segment.address, size_bytes, demand.stream_pool);
  return segments_[id.index].first;
}

// Creates the segment and the one block that covers it, free and in no set.
SegmentId Allocator::new_segment(const Segment& wanted) {
  SegmentId id;
  if (retired_segments_.empty()) {
    id = SegmentId(segments_.size());
    segments_.push_back(wanted);
  } else {
    id = retired_segments_.back();
    retired_segments_.pop_back();
    segments_[id.index] = wanted;
  }
  Segment& segment = segments_[id.index];
  segment.is_live = true;
  segment.order = segments_created_++;
  Block block;
  block.address = segment.address;
  block.size_bytes = segment.size_bytes;
  block.segment = id;
  block.stream_pool = segment.stream_pool;
  block.use = BlockUse::free;
  block.half = segment.half;
  block.is_expandable = segment.is_expandable();
  block.is_mapped = !block.is_expandable;
  segment.first = new_block(block);
  return id;
}

void Allocator::retire_segment(SegmentId id) {
  segments_[id.index].is_live = false;
  retired_segments_.push_back(id);
}

// block is cached and the only one of a plain segment.
void Allocator::release_segment(BlockId id) {
  const Block block = blocks_[id.index];
  GMP_CHECK(!block.is_split() && !block.is_expandable);
  uncache(id);
  reserved_bytes_ -= block.size_bytes;
  counters_.reserved_bytes.decrease(block.half, block.size_bytes);
  counters_.segment.decrease(block.half, 1);
  ++counters_.num_device_free;
  if (block.size_bytes >= options_.settings.max_split_bytes)
    counters_.oversize_segments.decrease(block.half, 1);
  log_call(Action::segment_free, block.address, block.size_bytes, block.stream_pool);
  addresses_->return_segment(block.address);
  retire_segment(block.segment);
  retire_block(id);
}

// Whole segments of the default large pool, in passes that take those of at least the mean age,
// until reserved memory is below the threshold. A pass is never cut short.
std::vector<BlockId> Allocator::find_garbage() const {
  const auto threshold =
      static_cast<std::uint64_t>(options_.settings.garbage_collection_threshold *
                                 static_cast<double>(options_.limit.allowed_bytes));
  std::vector<BlockId> garbage;
  if (reserved_bytes_ <= threshold) return garbage;
  const std::uint64_t target_bytes = reserved_bytes_ - threshold;
  const AllocatorPool& pool = pools_[kDefaultPool.index];
  constexpr auto kLarge = static_cast<std::size_t>(PoolHalf::large);
  const auto age_of = [&](BlockId id) {
    return pool.searches[kLarge] - blocks_[id.index].cached_at_search;
  };
  std::vector<BlockId> candidates;
  std::uint64_t total_age = 0;
  for (const StreamPoolId stream_pool : pool.stream_pools) {
    stream_pools_[stream_pool.index].free[kLarge].for_each([&](const FreeEntry& entry) {
      if (blocks_[entry.block].is_split() || blocks_[entry.block].is_expandable) return;
      candidates.emplace_back(entry.block);
      total_age += age_of(BlockId(entry.block));
    });
  }
  std::uint64_t found_bytes = 0;
  bool found_any = true;
  while (found_bytes < target_bytes && found_any && !candidates.empty()) {
    const double mean_age = static_cast<double>(total_age) / static_cast<double>(candidates.size());
    const std::size_t before = garbage.size();
    std::erase_if(candidates, [&](BlockId id) {
      if (static_cast<double>(age_of(id)) < mean_age) return false;
      garbage.push_back(id);
      return true;
    });
    for (std::size_t row = before; row < garbage.size(); ++row) {
      found_bytes += blocks_[garbage[row].index].size_bytes;
      total_age -= age_of(garbage[row]);
    }
    found_any = garbage.size() > before;
  }
  return garbage;
}

// Blocks of max_split_size or more were never split, unless a forged file states a size that torch
// does not allow. If one block is enough, it alone is returned; otherwise the largest first.
bool Allocator::find_oversize(const Demand& demand, std::span<const BlockId> gone,
                              std::vector<BlockId>& found) const {
  const FreeSet& set =
      stream_pools_[demand.stream_pool.index].free[static_cast<std::size_t>(demand.half)];
  const std::uint64_t least_bytes = options_.settings.max_split_bytes;
  const std::uint64_t wanted_bytes = std::max(demand.block_bytes, least_bytes);
  if (wanted_bytes > kMaxRequestBytes) return false;
  const auto is_gone = [&](FreeSet::Position position) {
    return std::find(gone.begin(), gone.end(), BlockId(set.at(position).block)) != gone.end();
  };
  FreeSet::Position position =
      set.find_fit(static_cast<std::uint32_t>(wanted_bytes / kMinBlockBytes));
  while (position != set.end() && is_gone(position)) position = set.next(position);
  const auto is_whole = [&](const Block& block) {
    return !block.is_expandable && !block.is_split();
  };
  if (position != set.end() && is_whole(blocks_[set.at(position).block])) {
    found.emplace_back(set.at(position).block);
    return true;
  }
  std::uint64_t found_bytes = 0;
  while (position != set.begin() && found_bytes < wanted_bytes) {
    position = set.previous(position);
    const Block& block = blocks_[set.at(position).block];
    if (block.size_bytes < least_bytes) break;
    if (!is_whole(block) || is_gone(position)) continue;
    found_bytes += block.size_bytes;
    found.emplace_back(set.at(position).block);
  }
  return found_bytes >= wanted_bytes;
}

void Allocator::empty_cache() {
  flush();
  check_self();
}

void Allocator::release_pool(PoolIndex pool) {
  if (pool != kDefaultPool) pools_[pool.index].is_released = true;
}

void Allocator::empty_pool(PoolIndex pool) {
  release_pool(pool);
  release_pool_blocks(pool);
  check_self();
}

void Allocator::flush() {
  ++counters_.num_sync_all_streams;
  complete_all_pending();
  release_pool_blocks(kDefaultPool);
  for (std::size_t pool = 1; pool < pools_.size(); ++pool) {
    if (pools_[pool].is_released) release_pool_blocks(PoolIndex(pool));
  }
}

void Allocator::complete_all_pending() {
  for (const AllocationId id : pending_) {
    const BlockId block = find_owned(id);
    if (block.is_none() || blocks_[block.index].use != BlockUse::pending) continue;
    const Block& waiting = blocks_[block.index];
    log_call(Action::free_completed, waiting.address, waiting.requested_bytes, waiting.stream_pool);
    complete(block);
  }
  pending_.clear();
  pending_count_ = 0;
}

void Allocator::collect_releasable(PoolIndex pool, std::vector<BlockId>& plain,
                                   std::vector<BlockId>& expandable) const {
  for (const PoolHalf half : {PoolHalf::large, PoolHalf::small}) {
    for (const StreamPoolId stream_pool : pools_[pool.index].stream_pools) {
      stream_pools_[stream_pool.index].free[static_cast<std::size_t>(half)].for_each(
          [&](const FreeEntry& entry) {
            const Block& block = blocks_[entry.block];
            if (block.is_expandable) {
              expandable.emplace_back(entry.block);
            } else if (!block.is_split()) {
              plain.emplace_back(entry.block);
            }
          });
    }
  }
}

void Allocator::release_pool_blocks(PoolIndex pool) {
  std::vector<BlockId> plain;
  std::vector<BlockId> expandable;
  collect_releasable(pool, plain, expandable);
  for (const BlockId block : plain) release_segment(block);
  for (const BlockId block : expandable) unmap(block);
}

}  // namespace gpumemprof::sim
