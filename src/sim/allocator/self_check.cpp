// The allocator checks itself: blocks tile segments, sets hold exactly the free blocks, counters
// equal the sums.
#include <string>

#include "base/error.h"
#include "sim/allocator/allocator.h"

namespace gpumemprof::sim {
namespace {

#if defined(NDEBUG) && !defined(GPUMEMPROF_SIM_CHECKS)
constexpr bool kChecksItself = false;
#else
constexpr bool kChecksItself = true;
#endif

// The check looks at everything; above this many blocks it runs only occasionally, so that debug
// builds still finish.
constexpr std::size_t kAlwaysCheckedBlocks = 2000;
constexpr std::uint64_t kCheckInterval = 512;

std::string at(const char* fault, std::uint64_t address) {
  return fault + (" at " + std::to_string(address));
}

}  // namespace

struct Allocator::Tally {
  std::size_t blocks = 0;
  std::size_t cached = 0;
  std::size_t unmapped = 0;
  Counters sums;
};

void Allocator::check_self() {
  if constexpr (kChecksItself) {
    ++operations_;
    if (blocks_.size() > kAlwaysCheckedBlocks && operations_ % kCheckInterval != 0) return;
    const std::string fault = find_fault();
    if (!fault.empty()) throw InternalError("the simulated allocator is broken: " + fault);
  }
}

std::string Allocator::find_fault() const {
  Tally tally;
  for (std::size_t row = 0; row < segments_.size(); ++row) {
    if (!segments_[row].is_live) continue;
    if (std::string fault = find_segment_fault(SegmentId(row), tally); !fault.empty()) return fault;
  }
  if (tally.blocks + retired_blocks_.size() != blocks_.size())
    return "a block belongs to no segment";
  if (std::string fault = find_set_fault(tally); !fault.empty()) return fault;
  return find_counter_fault(tally);
}

std::string Allocator::find_segment_fault(SegmentId segment_id, Tally& tally) const {
  const Segment& segment = segments_[segment_id.index];
  std::uint64_t address = segment.address;
  BlockId previous;
  bool previous_is_free = false;
  bool previous_is_mapped = false;
  for (BlockId id = segment.first; !id.is_none(); id = blocks_[id.index].next) {
    const Block& block = blocks_[id.index];
    ++tally.blocks;
    if (tally.blocks > blocks_.size())
      return at("a list of blocks goes in a circle", block.address);
    if (block.use == BlockUse::retired)
      return at("a retired block is still in a segment", block.address);
    if (block.previous != previous) return at("a block's link back is wrong", block.address);
    if (block.address != address)
      return at("a block does not start where the one before it ends", block.address);
    if (block.segment != segment_id || block.stream_pool != segment.stream_pool ||
        block.half != segment.half) {
      return at("a block is in another's segment", block.address);
    }
    if (block.size_bytes == 0 || block.size_bytes % kMinBlockBytes != 0)
      return at("a block's size is odd", address);
    if (previous_is_free && block.is_free() && previous_is_mapped == block.is_mapped) {
      return at("two free neighbours were not merged", block.address);
    }
    if (block.is_free() == !block.owner.is_none())
      return at("a block's owner contradicts its use", address);
    if (!block.is_mapped && (!block.is_free() || block.size_bytes % segment.page_bytes != 0)) {
      return at("an unmapped block is in use or not whole pages", address);
    }
    if (!block.is_free() && find_owned(block.owner) != id)
      return at("an owner does not know its block", address);
    Counters& sums = tally.sums;
    if (block.is_mapped) sums.reserved_bytes.increase(block.half, block.size_bytes);
    if (block.is_free()) {
      ++(block.is_mapped ? tally.cached : tally.unmapped);
      if (!block.is_expandable && block.is_split()) {
        sums.inactive_split.increase(block.half, 1);
        sums.inactive_split_bytes.increase(block.half, block.size_bytes);
      }
    } else {
      sums.active.increase(block.half, 1);
      sums.active_bytes.increase(block.half, block.size_bytes);
      sums.requested_bytes.increase(block.half, block.requested_bytes);
      if (block.use == BlockUse::handed_out) {
        sums.allocation.increase(block.half, 1);
        sums.allocated_bytes.increase(block.half, block.size_bytes);
      }
    }
    previous = id;
    previous_is_free = block.is_free();
    previous_is_mapped = block.is_mapped;
    address += block.size_bytes;
  }
  if (!segment.is_expandable()) tally.sums.segment.increase(segment.half, 1);
  if (address != segment.address + segment.size_bytes)
    return at("blocks do not fill their segment", segment.address);
  return {};
}

std::string Allocator::find_set_fault(const Tally& tally) const {
  std::size_t cached = 0;
  std::size_t unmapped = 0;
  std::string fault;
  for (std::size_t stream_pool = 0; stream_pool < stream_pools_.size(); ++stream_pool) {
    for (const PoolHalf half : {PoolHalf::small, PoolHalf::large}) {
      const auto belongs = [&](const Block& block, bool is_mapped) {
        return block.is_free() && block.is_mapped == is_mapped && block.half == half &&
               block.stream_pool == StreamPoolId(stream_pool);
      };
      const FreeSet& set = stream_pools_[stream_pool].free[static_cast<std::size_t>(half)];
      if (!set.is_valid()) return "a set of free blocks is out of order";
      cached += set.size();
      set.for_each([&](const FreeEntry& entry) {
        const FreeEntry expected = entry_of(BlockId(entry.block));
        const bool agrees = entry.tie == expected.tie && entry.size_units == expected.size_units;
        if (!agrees || !belongs(blocks_[entry.block], true))
          fault = at("a cached block is not what its set says", entry.tie);
      });
      const auto& stretches = stream_pools_[stream_pool].unmapped[static_cast<std::size_t>(half)];
      unmapped += stretches.size();
      std::uint64_t last = 0;
      for (const BlockId id : stretches) {
        const Block& block = blocks_[id.index];
        if (!belongs(block, false) || block.address < last)
          fault = at("an unmapped block is listed wrongly", block.address);
        last = block.address;
      }
    }
  }
  if (fault.empty() && (cached != tally.cached || unmapped != tally.unmapped))
    fault = "a free block is in no set";
  return fault;
}

std::string Allocator::find_counter_fault(const Tally& tally) const {
  const auto differs = [](const Stat& stat, const Stat& sum) {
    return stat.current(PoolHalf::small) != sum.current(PoolHalf::small) ||
           stat.current(PoolHalf::large) != sum.current(PoolHalf::large) ||
           stat.peak() < stat.current() || stat.allocated() < stat.current();
  };
  const Counters& sums = tally.sums;
  if (differs(counters_.allocation, sums.allocation)) return "the count of allocations is wrong";
  if (differs(counters_.allocated_bytes, sums.allocated_bytes)) return "allocated bytes are wrong";
  if (differs(counters_.active, sums.active)) return "the count of active blocks is wrong";
  if (differs(counters_.active_bytes, sums.active_bytes)) return "active bytes are wrong";
  if (differs(counters_.requested_bytes, sums.requested_bytes)) return "requested bytes are wrong";
  if (differs(counters_.segment, sums.segment)) return "the count of segments is wrong";
  if (differs(counters_.reserved_bytes, sums.reserved_bytes)) return "reserved bytes are wrong";
  if (differs(counters_.inactive_split, sums.inactive_split))
    return "the count of inactive splits is wrong";
  if (differs(counters_.inactive_split_bytes, sums.inactive_split_bytes))
    return "inactive split bytes are wrong";
  if (reserved_bytes_ != counters_.reserved_bytes.current())
    return "reserved bytes disagree with their counter";
  if (has_adopted_) return {};
  if (reserved_bytes_ > options_.limit.device_bytes) return "more is reserved than the device has";
  // The limit is checked with a segment's size, but whole pages are mapped: torch exceeds it by
  // part of a page.
  const bool may_exceed = options_.settings.expandable_segments;
  const std::uint64_t slack = may_exceed ? options_.settings.large_segment_bytes : 0;
  if (reserved_bytes_ > slack && reserved_bytes_ - slack > options_.limit.allowed_bytes) {
    return "more is reserved than the limit allows";
  }
  return {};
}

}  // namespace gpumemprof::sim
