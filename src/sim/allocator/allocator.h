// Allocator: simulates PyTorch's native caching allocator for one device. It decides every
// placement, every segment and every counter as torch does, from the program's requests alone.
//
// Owns blocks, segments and free sets; touches no device. Callers name allocations by dense ids
// (AllocationId) and give the origin of requests as a stream pool (stream and pool). All sizes are
// in bytes. Not thread-safe. In debug builds the structure checks itself after every operation
// (is_valid).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/column.h"
#include "event/allocator_settings.h"
#include "event/event.h"
#include "event/recording.h"
#include "sim/allocator/address_source.h"
#include "sim/allocator/block.h"
#include "sim/allocator/rules.h"

namespace gpumemprof::sim {

struct AllocatorOptions {
  AllocatorSettings settings;
  AllocatorRules rules;
  MemoryLimit limit;
  std::uint64_t device_total_bytes =
      0;  // 0: unknown; sets the address range an expandable segment reserves
};

struct Placement {
  SegmentId segment;
  std::uint64_t address = 0;
  std::uint64_t offset_bytes = 0;  // within the segment
  std::uint64_t block_bytes = 0;
};

// Something the allocator did on its own while serving a request.
struct DeviceCall {
  Action action = Action::other;  // segment_*, or free_completed when it waited for a stream
  std::uint64_t address = 0;
  std::uint64_t size_bytes = 0;
  std::uint32_t stream = 0;
  PoolIndex pool = kDefaultPool;
};

// What a request would make the allocator return to the device first.
struct ReleasePlan {
  std::vector<BlockId> blocks;  // garbage collected or oversize; whole segments
  bool empties_cache = false;   // and then the retry: everything that can be returned
};

class Allocator {
 public:
  // addresses must outlive the allocator.
  Allocator(const AllocatorOptions& options, AddressSource& addresses);

  PoolIndex add_pool(PoolKind kind);  // the default pool always exists
  StreamPoolId add_stream_pool(const StreamPoolKey& key);
  void reserve_allocations(std::size_t count);

  // False: out of memory; the id then names nothing, and later calls with it are ignored.
  bool allocate(AllocationId id, std::uint64_t requested_bytes, StreamPoolId stream_pool);
  void free(AllocationId id);
  // The owner freed the block, but another stream still uses it: record_stream.
  void request_free(AllocationId id);
  void complete_free(AllocationId id);
  void empty_cache();
  void release_pool(PoolIndex pool);  // its memory may be returned from the next empty_cache on
  void empty_pool(PoolIndex pool);    // and returned now, without touching the others

  // From now on; what is reserved beyond a lower limit stays.
  void set_limit(const MemoryLimit& limit);
  void reset_peaks() { counters_.reset_peaks(); }

  [[nodiscard]] bool is_live(AllocationId id) const { return !find_owned(id).is_none(); }
  [[nodiscard]] Placement placement(AllocationId id) const;
  [[nodiscard]] const Counters& counters() const { return counters_; }
  [[nodiscard]] std::uint64_t reserved_bytes() const { return reserved_bytes_; }
  [[nodiscard]] const AllocatorOptions& options() const { return options_; }

  // The device calls since the last clear, kept only when asked for.
  void keep_calls(bool keep) { keeps_calls_ = keep; }
  [[nodiscard]] const std::vector<DeviceCall>& calls() const { return calls_; }
  void clear_calls() { calls_.clear(); }

  // For following a recording: query what would happen, and make happen what the recording says.
  [[nodiscard]] ReleasePlan plan_release(std::uint64_t requested_bytes,
                                         StreamPoolId stream_pool) const;
  [[nodiscard]] std::vector<DeviceCall> plan_empty_cache() const;
  // Whether the request would fit in the memory these pending frees leave once they completed.
  [[nodiscard]] bool fits_after(std::span<const AllocationId> completing,
                                std::uint64_t requested_bytes, StreamPoolId stream_pool) const;
  bool allocate_at(AllocationId id, std::uint64_t requested_bytes, StreamPoolId stream_pool,
                   std::uint64_t address);
  bool release_segment_at(std::uint64_t address);
  void empty_cache_as_retry();
  [[nodiscard]] std::size_t pending_count() const { return pending_count_; }
  // The order in which an empty_cache completes the pending frees: these first. Torch's own order
  // is that of a hash table, and it is visible in the running totals of inactive_split.
  void complete_first(std::span<const AllocationId> ids);
  // Adds a segment that existed before, with all its blocks; its active blocks get consecutive ids
  // starting at first_id.
  void adopt_segment(const SegmentState& state, std::span<const BlockState> blocks,
                     StreamPoolId stream_pool, AllocationId first_id);

  template <typename Visit>
  void for_each_segment(Visit&& visit) const {
    for (const Segment& segment : segments_) {
      if (segment.is_live) visit(segment);
    }
  }
  [[nodiscard]] const Block& block(BlockId id) const { return blocks_[id.index]; }
  [[nodiscard]] const StreamPoolKey& stream_pool(StreamPoolId id) const {
    return stream_pools_[id.index].key;
  }

  // Empty, or the first broken invariant as a sentence.
  [[nodiscard]] std::string find_fault() const;
  [[nodiscard]] bool is_valid() const { return find_fault().empty(); }

 private:
  // What a request needs from the device.
  struct Demand {
    StreamPoolId stream_pool;
    PoolHalf half = PoolHalf::small;
    std::uint64_t block_bytes = 0;
    std::uint64_t segment_bytes = 0;
  };
  struct ExpansionSite {
    BlockId first;                    // free or unmapped; none: a new range is needed
    std::uint64_t missing_bytes = 0;  // to map, in whole pages
  };

  [[nodiscard]] Demand demand_for(std::uint64_t requested_bytes, StreamPoolId stream_pool) const;

  // Finding and splitting (allocator.cpp).
  [[nodiscard]] FreeSet::Position find_cached(const Demand& demand) const;
  [[nodiscard]] bool is_acceptable(const Demand& demand, const Block& block) const;
  [[nodiscard]] bool splits(const Demand& demand, const Block& block) const;
  void take_cached(FreeSet& set, FreeSet::Position position, const Demand& demand,
                   std::uint64_t requested_bytes, AllocationId id);
  BlockId hand_out(BlockId block, const Demand& demand, std::uint64_t requested_bytes,
                   AllocationId id);
  void mark_freed(Block& block);
  void mark_pending(BlockId block);
  void complete(BlockId block);
  [[nodiscard]] BlockId find_owned(AllocationId id) const {
    if (id.index >= block_of_.size()) return {};
    const BlockId block = block_of_[id.index];
    return !block.is_none() && blocks_[block.index].owner == id ? block : BlockId();
  }

  // Rows (blocks.cpp).
  BlockId new_block(const Block& block);
  void retire_block(BlockId block);
  BlockId split_tail(BlockId block, std::uint64_t front_bytes);
  void absorb_next(BlockId block);
  void cache(BlockId block);
  void cache_adopted(BlockId block);
  void uncache(BlockId block);
  void note_cached(Block& block);
  [[nodiscard]] FreeSet::Position find_in(const FreeSet& set, BlockId block) const;
  [[nodiscard]] FreeEntry entry_of(BlockId block) const;
  [[nodiscard]] FreeSet& set_of(const Block& block) {
    return stream_pools_[block.stream_pool.index].free[static_cast<std::size_t>(block.half)];
  }
  void log_call(Action action, std::uint64_t address, std::uint64_t size_bytes,
                StreamPoolId stream_pool);

  // Memory from the device (device_memory.cpp).
  BlockId take_fresh(const Demand& demand);
  BlockId grow(const Demand& demand);
  BlockId grow_plain(const Demand& demand);
  [[nodiscard]] bool expands(const Demand& demand) const;
  [[nodiscard]] bool fits(const Demand& demand, std::uint64_t reserved_bytes) const;
  [[nodiscard]] bool exceeds_limit(const Demand& demand, std::uint64_t reserved_bytes) const;
  [[nodiscard]] bool is_rejected(const Demand& demand, std::uint64_t reserved_bytes) const;
  [[nodiscard]] bool may_flush(StreamPoolId stream_pool) const;
  SegmentId new_segment(const Segment& segment);
  void retire_segment(SegmentId segment);
  void release_segment(BlockId block);
  [[nodiscard]] std::vector<BlockId> find_garbage() const;
  // Finds the oversize blocks to return so that demand fits; false where they are not enough, and
  // found then holds those there are. Blocks in gone count as already returned.
  bool find_oversize(const Demand& demand, std::span<const BlockId> gone,
                     std::vector<BlockId>& found) const;
  void flush();
  void complete_all_pending();
  void release_pool_blocks(PoolIndex pool);
  void collect_releasable(PoolIndex pool, std::vector<BlockId>& plain,
                          std::vector<BlockId>& expandable) const;

  // Expandable segments (expandable.cpp).
  BlockId grow_expandable(const Demand& demand);
  [[nodiscard]] ExpansionSite find_site(const Demand& demand) const;
  BlockId new_range(const Demand& demand);
  BlockId map(BlockId unmapped, std::uint64_t bytes);
  void unmap(BlockId block);
  [[nodiscard]] std::pair<std::uint64_t, std::uint64_t> whole_pages(const Block& block) const;
  BlockId adopt_run(const SegmentState& state, StreamPoolId stream_pool, PoolHalf half);
  void insert_unmapped(BlockId block);
  void erase_unmapped(BlockId block);

  // Self-check (self_check.cpp).
  void check_self();
  struct Tally;
  [[nodiscard]] std::string find_segment_fault(SegmentId id, Tally& tally) const;
  [[nodiscard]] std::string find_set_fault(const Tally& tally) const;
  [[nodiscard]] std::string find_counter_fault(const Tally& tally) const;

  AllocatorOptions options_;
  AddressSource* addresses_;
  std::vector<Block> blocks_;
  std::vector<BlockId> retired_blocks_;
  std::vector<Segment> segments_;
  std::vector<SegmentId> retired_segments_;
  std::vector<StreamPool> stream_pools_;
  std::vector<AllocatorPool> pools_;
  std::vector<AllocationId> pending_;  // may include allocations that have completed since
  std::size_t pending_count_ = 0;
  Column<BlockId> block_of_;  // by allocation
  Counters counters_;
  std::uint64_t reserved_bytes_ = 0;
  std::uint64_t segments_created_ = 0;
  std::uint64_t range_bytes_ = 0;
  bool collects_garbage_ = false;
  bool has_adopted_ = false;  // adopted memory may exceed the limit, as may what a lower one met
  bool keeps_calls_ = false;
  std::vector<DeviceCall> calls_;
  std::uint64_t operations_ = 0;
};

}  // namespace gpumemprof::sim
