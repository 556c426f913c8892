#include "analysis/moment/pool_state.h"

#include <algorithm>

namespace gpumemprof {
namespace {

SegmentState segment_row(const DeviceRecord& record, std::size_t row) {
  const SegmentColumns& rows = record.segments;
  return {record.device,  rows.address[row],       rows.size_bytes[row],         rows.stream[row],
          rows.pool[row], rows.is_small[row] != 0, rows.is_expandable[row] != 0, rows.stack[row]};
}

// Pieces of one expandable segment that were mapped one after another. Their stream, pool and half
// are not compared: each is known only from what a piece was mapped for, and a block may span two
// pieces.
bool continues(const SegmentState& segment, const SegmentState& next) {
  return segment.is_expandable && next.is_expandable &&
         segment.address + segment.size_bytes == next.address;
}

std::vector<SegmentState> segments_at(const DeviceRecord& record, Moment moment) {
  std::vector<SegmentState> pieces;
  for (std::size_t row = 0; row < record.segments.size(); ++row) {
    if (record.segments.is_reserved_at(row, moment)) pieces.push_back(segment_row(record, row));
  }
  std::ranges::sort(pieces, {}, &SegmentState::address);
  std::vector<SegmentState> joined;
  for (const SegmentState& piece : pieces) {
    if (!joined.empty() && continues(joined.back(), piece)) {
      joined.back().size_bytes += piece.size_bytes;
    } else {
      joined.push_back(piece);
    }
  }
  return joined;
}

class PoolSweep {
 public:
  PoolSweep(const DeviceRecord& record, Moment moment, std::vector<AllocationId> active)
      : rows_(record.allocations), moment_(moment), active_(std::move(active)) {
    std::ranges::sort(active_, {}, [&](AllocationId row) { return rows_.address[row.index]; });
    for (const SegmentState& state : segments_at(record, moment)) add_segment(state);
    while (next_ < active_.size()) pool.strays.push_back(next_block());
  }

  PoolState pool;

 private:
  [[nodiscard]] std::uint64_t next_address() const { return rows_.address[active_[next_].index]; }

  PoolBlock next_block() {
    const AllocationId row = active_[next_++];
    return {rows_.address[row.index], rows_.size_bytes[row.index], row,
            !rows_.is_allocated_at(row.index, moment_)};
  }

  void take_strays(std::uint64_t before_address) {
    while (next_ < active_.size() && next_address() < before_address)
      pool.strays.push_back(next_block());
  }

  void add_segment(const SegmentState& state) {
    PoolSegment segment;
    segment.state = state;
    segment.first_block = static_cast<std::uint32_t>(pool.blocks.size());
    const std::uint64_t end = state.address + state.size_bytes;
    std::uint64_t position = state.address;
    take_strays(state.address);
    while (next_ < active_.size() && next_address() < end) {
      add_free(segment, position, next_address());
      const PoolBlock block = next_block();
      add_used(segment, block);
      position = block.address + block.size_bytes;
    }
    add_free(segment, position, end);
    segment.block_count = static_cast<std::uint32_t>(pool.blocks.size()) - segment.first_block;
    pool.reserved_bytes += state.size_bytes;
    pool.free_bytes += segment.free_bytes;
    pool.segments.push_back(segment);
  }

  void add_free(PoolSegment& segment, std::uint64_t from, std::uint64_t to) {
    if (to <= from) return;
    pool.blocks.push_back({from, to - from, {}, false});
    segment.free_bytes += to - from;
  }

  void add_used(PoolSegment& segment, const PoolBlock& block) {
    pool.blocks.push_back(block);
    (block.is_waiting ? pool.waiting_bytes : pool.allocated_bytes) += block.size_bytes;
    if (segment.oldest.is_none() || is_older(block.allocation, segment.oldest))
      segment.oldest = block.allocation;
  }

  // Allocations from before the history are older than all others.
  [[nodiscard]] bool is_older(AllocationId row, AllocationId than) const {
    const std::uint32_t birth = rows_.alloc_event[row.index];
    const std::uint32_t other = rows_.alloc_event[than.index];
    if (birth == kNoEvent || other == kNoEvent) return birth == kNoEvent && other != kNoEvent;
    return birth < other;
  }

  const AllocationColumns& rows_;
  Moment moment_;
  std::vector<AllocationId> active_;
  std::size_t next_ = 0;
};

}  // namespace

PoolState pool_state_at(const DeviceRecord& record, Moment moment) {
  std::vector<AllocationId> active;
  for (std::size_t row = 0; row < record.allocations.size(); ++row) {
    if (record.allocations.is_active_at(row, moment)) active.push_back(AllocationId(row));
  }
  return pool_state_at(record, moment, std::move(active));
}

PoolState pool_state_at(const DeviceRecord& record, Moment moment,
                        std::vector<AllocationId> active) {
  return std::move(PoolSweep(record, moment, std::move(active)).pool);
}

ListedState listed_state(const DeviceRecord& record, const PoolState& pool) {
  const AllocationColumns& rows = record.allocations;
  ListedState listed;
  for (const PoolSegment& segment : pool.segments) {
    listed.segments.push_back(segment.state);
    for (const PoolBlock& block : pool.blocks_of(segment)) {
      BlockState state{block.address, block.size_bytes, 0, BlockStateKind::inactive, {}};
      if (!block.is_free()) {
        state.requested_bytes = rows.requested_bytes[block.allocation.index];
        state.state = block.is_waiting ? BlockStateKind::active_pending_free
                                       : BlockStateKind::active_allocated;
        state.stack = rows.stack[block.allocation.index];
      }
      listed.blocks.push_back(state);
    }
    listed.first_block.push_back(static_cast<std::uint32_t>(listed.blocks.size()));
  }
  return listed;
}

}  // namespace gpumemprof
