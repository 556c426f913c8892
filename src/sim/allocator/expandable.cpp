// Expandable segments: an address range whose pages are mapped as they are needed and unmapped when
// they are returned. Unmapped stretches are blocks too; they consist of whole pages and are never
// adjacent.
#include <algorithm>

#include "base/error.h"
#include "sim/allocator/allocator.h"

namespace gpumemprof::sim {
namespace {

constexpr std::uint64_t round_up(std::uint64_t bytes, std::uint64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace

// The lowest unmapped stretch that has room, together with a free block right before it and any
// free blocks after it.
Allocator::ExpansionSite Allocator::find_site(const Demand& demand) const {
  const StreamPool& stream_pool = stream_pools_[demand.stream_pool.index];
  for (const BlockId unmapped : stream_pool.unmapped[static_cast<std::size_t>(demand.half)]) {
    BlockId first = unmapped;
    const BlockId before = blocks_[unmapped.index].previous;
    if (!before.is_none() && blocks_[before.index].is_free()) first = before;
    const std::uint64_t page_bytes = segments_[blocks_[first.index].segment.index].page_bytes;
    std::uint64_t room = 0;
    std::uint64_t missing = 0;
    for (BlockId id = first;
         room < demand.block_bytes && !id.is_none() && blocks_[id.index].is_free();
         id = blocks_[id.index].next) {
      const Block& block = blocks_[id.index];
      if (!block.is_mapped)
        missing += round_up(std::min(block.size_bytes, demand.block_bytes - room), page_bytes);
      room += block.size_bytes;
    }
    if (room >= demand.block_bytes) return {first, missing};
  }
  const std::uint64_t page_bytes =
      demand.half == PoolHalf::small ? kSmallPageBytes : options_.settings.large_segment_bytes;
  return {BlockId(), round_up(demand.block_bytes, page_bytes)};
}

BlockId Allocator::new_range(const Demand& demand) {
  Segment segment;
  segment.page_bytes =
      demand.half == PoolHalf::small ? kSmallPageBytes : options_.settings.large_segment_bytes;
  segment.size_bytes = round_up(std::max(range_bytes_, demand.block_bytes), segment.page_bytes);
  segment.address = addresses_->place_range(segment.size_bytes);
  segment.stream_pool = demand.stream_pool;
  segment.half = demand.half;
  const BlockId block = segments_[new_segment(segment).index].first;
  insert_unmapped(block);
  return block;
}

// Maps what is missing, stretch by stretch; the result is free and in no set.
BlockId Allocator::grow_expandable(const Demand& demand) {
  BlockId block = find_site(demand).first;
  if (block.is_none()) block = new_range(demand);
  if (!blocks_[block.index].is_mapped) {
    block = map(block, std::min(blocks_[block.index].size_bytes, demand.block_bytes));
  }
  while (blocks_[block.index].size_bytes < demand.block_bytes) {
    const BlockId next = blocks_[block.index].next;
    const std::uint64_t missing = demand.block_bytes - blocks_[block.index].size_bytes;
    block = map(next, std::min(missing, blocks_[next.index].size_bytes));
  }
  uncache(block);
  return block;
}

// Maps the front of an unmapped block, merges it with its free neighbours, caches and returns the
// result.
BlockId Allocator::map(BlockId id, std::uint64_t bytes) {
  const Block block = blocks_[id.index];
  const Segment& segment = segments_[block.segment.index];
  const std::uint64_t mapped_bytes = round_up(bytes, segment.page_bytes);
  erase_unmapped(id);
  if (mapped_bytes < block.size_bytes) insert_unmapped(split_tail(id, mapped_bytes));
  blocks_[id.index].is_mapped = true;
  const auto merges = [this](BlockId neighbour) {
    return !neighbour.is_none() && blocks_[neighbour.index].is_free() &&
           blocks_[neighbour.index].is_mapped;
  };
  if (merges(blocks_[id.index].next)) {
    uncache(blocks_[id.index].next);
    absorb_next(id);
  }
  if (merges(blocks_[id.index].previous)) {
    id = blocks_[id.index].previous;
    uncache(id);
    absorb_next(id);
  }
  cache(id);
  reserved_bytes_ += mapped_bytes;
  counters_.reserved_bytes.increase(block.half, mapped_bytes);
  ++counters_.num_device_alloc;
  log_call(Action::segment_map, block.address, mapped_bytes, block.stream_pool);
  return id;
}

// The pages that are entirely inside the block, as [first, last) addresses. The page grid starts at
// the segment.
std::pair<std::uint64_t, std::uint64_t> Allocator::whole_pages(const Block& block) const {
  const Segment& segment = segments_[block.segment.index];
  const std::uint64_t offset = block.address - segment.address;
  const std::uint64_t first = round_up(offset, segment.page_bytes);
  const std::uint64_t last = (offset + block.size_bytes) / segment.page_bytes * segment.page_bytes;
  return {segment.address + first, segment.address + std::max(first, last)};
}

// Returns the pages inside a cached block; what remains of it on either side stays cached.
void Allocator::unmap(BlockId id) {
  const auto [first, last] = whole_pages(blocks_[id.index]);
  if (first == last) return;
  uncache(id);
  if (const std::uint64_t before = first - blocks_[id.index].address; before > 0) {
    const BlockId middle = split_tail(id, before);
    cache(id);
    id = middle;
  }
  if (const std::uint64_t unmapped = last - first; unmapped < blocks_[id.index].size_bytes) {
    cache(split_tail(id, unmapped));
  }
  blocks_[id.index].is_mapped = false;
  const auto merges = [this](BlockId neighbour) {
    return !neighbour.is_none() && !blocks_[neighbour.index].is_mapped;
  };
  if (const BlockId next = blocks_[id.index].next; merges(next)) {
    erase_unmapped(next);
    absorb_next(id);
  }
  if (const BlockId previous = blocks_[id.index].previous; merges(previous)) {
    erase_unmapped(previous);
    id = previous;
    absorb_next(id);
  }
  const Block& block = blocks_[id.index];
  reserved_bytes_ -= last - first;
  counters_.reserved_bytes.decrease(block.half, last - first);
  ++counters_.num_device_free;
  log_call(Action::segment_unmap, first, last - first, block.stream_pool);
  if (block.is_split()) {
    insert_unmapped(id);
  } else {
    // Nothing in the range is mapped any more: release it.
    retire_segment(block.segment);
    retire_block(id);
  }
}

void Allocator::insert_unmapped(BlockId id) {
  const Block& block = blocks_[id.index];
  auto& list =
      stream_pools_[block.stream_pool.index].unmapped[static_cast<std::size_t>(block.half)];
  const auto place = std::lower_bound(
      list.begin(), list.end(), block.address,
      [this](BlockId other, std::uint64_t at) { return blocks_[other.index].address < at; });
  list.insert(place, id);
}

void Allocator::erase_unmapped(BlockId id) {
  const Block& block = blocks_[id.index];
  auto& list =
      stream_pools_[block.stream_pool.index].unmapped[static_cast<std::size_t>(block.half)];
  const auto place = std::find(list.begin(), list.end(), id);
  GMP_CHECK(place != list.end());
  list.erase(place);
}

}  // namespace gpumemprof::sim
