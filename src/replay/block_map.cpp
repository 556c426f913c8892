#include "replay/block_map.h"

#include <iterator>

namespace gpumemprof {

std::uint32_t BlockMap::new_block(std::uint64_t address, std::uint64_t size_bytes,
                                  SegmentId segment, bool is_expandable) {
  std::uint32_t block = 0;
  if (unused_.empty()) {
    block = static_cast<std::uint32_t>(blocks_.size());
    blocks_.emplace_back();
  } else {
    block = unused_.back();
    unused_.pop_back();
    blocks_[block] = Block();
  }
  blocks_[block].address = address;
  blocks_[block].size_bytes = size_bytes;
  blocks_[block].segment = segment;
  blocks_[block].is_expandable = is_expandable;
  by_address_.insert_or_assign(address, block);
  return block;
}

void BlockMap::drop_block(std::uint32_t block) {
  by_address_.erase(blocks_[block].address);
  unused_.push_back(block);
}

void BlockMap::link(std::uint32_t first, std::uint32_t second) {
  if (first != kNoBlock) blocks_[first].next = second;
  if (second != kNoBlock) blocks_[second].previous = first;
}

void BlockMap::merge_with_next(std::uint32_t block) {
  const std::uint32_t next = blocks_[block].next;
  blocks_[block].size_bytes += blocks_[next].size_bytes;
  link(block, blocks_[next].next);
  drop_block(next);
}

bool BlockMap::overlaps(std::uint64_t address, std::uint64_t size_bytes) const {
  const std::uint64_t end = address + size_bytes;
  if (size_bytes == 0 || end < address) return true;
  const auto above = extents_.lower_bound(address);
  if (above != extents_.end() && above->first < end) return true;
  return above != extents_.begin() && std::prev(above)->second.end > address;
}

bool BlockMap::add_segment(std::uint64_t address, std::uint64_t size_bytes, SegmentId segment) {
  if (overlaps(address, size_bytes)) return false;
  new_block(address, size_bytes, segment, false);
  extents_[address] = {address + size_bytes, false};
  return true;
}

bool BlockMap::remove_segment(std::uint64_t address, std::uint64_t size_bytes) {
  const std::uint32_t block = find(address);
  if (block == kNoBlock) return false;
  const Block& found = blocks_[block];
  const bool is_whole =
      found.previous == kNoBlock && found.next == kNoBlock && found.size_bytes == size_bytes;
  if (!is_whole || !found.is_free() || found.is_expandable) return false;
  drop_block(block);
  extents_.erase(address);
  return true;
}

bool BlockMap::map_pages(std::uint64_t address, std::uint64_t size_bytes, SegmentId segment) {
  if (overlaps(address, size_bytes)) return false;
  const std::uint64_t end = address + size_bytes;
  const std::uint32_t block = new_block(address, size_bytes, segment, true);
  auto run = extents_.emplace(address, Extent{end, true}).first;
  const auto above = std::next(run);
  if (above != extents_.end() && above->first == end && above->second.is_expandable) {
    link(block, find(end));
    run->second.end = above->second.end;
    extents_.erase(above);
  }
  if (run != extents_.begin()) {
    const auto below = std::prev(run);
    if (below->second.end == address && below->second.is_expandable) {
      // The run's last block is found from its first: only map events pay for the walk.
      std::uint32_t last = find(below->first);
      while (blocks_[last].next != kNoBlock) last = blocks_[last].next;
      link(last, block);
      blocks_[block].segment = blocks_[last].segment;
      below->second.end = run->second.end;
      extents_.erase(run);
    }
  }
  release(block);
  return true;
}

bool BlockMap::unmap_pages(std::uint64_t address, std::uint64_t size_bytes) {
  const std::uint32_t block = find_containing(address);
  if (block == kNoBlock || size_bytes == 0) return false;
  const std::uint64_t start = blocks_[block].address;
  const std::uint64_t block_end = start + blocks_[block].size_bytes;
  const std::uint64_t end = address + size_bytes;
  if (!blocks_[block].is_free() || !blocks_[block].is_expandable || end < address ||
      end > block_end)
    return false;
  const auto run = std::prev(extents_.upper_bound(address));
  const std::uint64_t run_end = run->second.end;
  const SegmentId segment = blocks_[block].segment;
  const std::uint32_t previous = blocks_[block].previous;
  const std::uint32_t next = blocks_[block].next;
  drop_block(block);
  link(previous, kNoBlock);
  link(kNoBlock, next);
  if (start < address) link(previous, new_block(start, address - start, segment, true));
  if (end < block_end) link(new_block(end, block_end - end, segment, true), next);
  if (run->first == address) {
    extents_.erase(run);
  } else {
    run->second.end = address;
  }
  if (end < run_end) extents_[end] = {run_end, true};
  return true;
}

void BlockMap::take(std::uint32_t block, std::uint64_t size_bytes, AllocationId allocation) {
  GMP_CHECK(blocks_[block].is_free() && size_bytes <= blocks_[block].size_bytes);
  if (size_bytes < blocks_[block].size_bytes) {
    const Block whole = blocks_[block];
    const std::uint32_t rest = new_block(whole.address + size_bytes, whole.size_bytes - size_bytes,
                                         whole.segment, whole.is_expandable);
    link(rest, whole.next);
    link(block, rest);
    blocks_[block].size_bytes = size_bytes;
  }
  blocks_[block].allocation = allocation;
  blocks_[block].is_pending = false;
}

void BlockMap::release(std::uint32_t block) {
  blocks_[block].allocation = AllocationId();
  blocks_[block].is_pending = false;
  const std::uint32_t next = blocks_[block].next;
  if (next != kNoBlock && blocks_[next].is_free()) merge_with_next(block);
  const std::uint32_t previous = blocks_[block].previous;
  if (previous != kNoBlock && blocks_[previous].is_free()) merge_with_next(previous);
}

std::uint32_t BlockMap::split_free(std::uint32_t block, std::uint64_t address) {
  const Block whole = blocks_[block];
  GMP_CHECK(whole.is_free() && address > whole.address &&
            address < whole.address + whole.size_bytes);
  const std::uint32_t rest = new_block(address, whole.address + whole.size_bytes - address,
                                       whole.segment, whole.is_expandable);
  link(rest, whole.next);
  link(block, rest);
  blocks_[block].size_bytes = address - whole.address;
  return rest;
}

bool BlockMap::grow(std::uint32_t block, std::uint64_t size_bytes) {
  const std::uint32_t next = blocks_[block].next;
  if (next == kNoBlock || !blocks_[next].is_free()) return false;
  const std::uint64_t more = size_bytes - blocks_[block].size_bytes;
  if (more >= blocks_[next].size_bytes) return false;
  by_address_.erase(blocks_[next].address);
  blocks_[next].address += more;
  blocks_[next].size_bytes -= more;
  by_address_.insert_or_assign(blocks_[next].address, next);
  blocks_[block].size_bytes = size_bytes;
  return true;
}

std::uint32_t BlockMap::find_containing(std::uint64_t address) const {
  if (const std::uint32_t exact = find(address); exact != kNoBlock) return exact;
  const auto above = extents_.upper_bound(address);
  if (above == extents_.begin()) return kNoBlock;
  const auto extent = std::prev(above);
  if (extent->second.end <= address) return kNoBlock;
  for (std::uint32_t block = find(extent->first); block != kNoBlock; block = blocks_[block].next) {
    if (address < blocks_[block].address + blocks_[block].size_bytes) return block;
  }
  return kNoBlock;
}

bool BlockMap::has_unsplit_free_segment() const {
  for (const auto& [address, extent] : extents_) {
    if (extent.is_expandable) continue;
    const Block& block = blocks_[find(address)];
    if (block.is_free() && block.address + block.size_bytes == extent.end) return true;
  }
  return false;
}

bool BlockMap::is_valid() const {
  std::size_t reached = 0;
  for (const auto& [start, extent] : extents_) {
    std::uint64_t expected = start;
    std::uint32_t previous = kNoBlock;
    for (std::uint32_t row = find(start); row != kNoBlock; row = blocks_[row].next) {
      const Block& block = blocks_[row];
      if (block.address != expected || block.previous != previous || block.size_bytes == 0)
        return false;
      if (previous != kNoBlock && block.is_free() && blocks_[previous].is_free()) return false;
      expected = block.address + block.size_bytes;
      previous = row;
      ++reached;
    }
    if (expected != extent.end) return false;
  }
  return reached == by_address_.size();
}

}  // namespace gpumemprof
