#include "report/torch_snapshot/state_at_end.h"

#include <algorithm>

namespace gpumemprof {
namespace {

// Adjacent mapped pieces that belong together are one segment in PyTorch's list.
bool continues(const SegmentState& segment, const SegmentState& next) {
  return segment.is_expandable && next.is_expandable &&
         segment.address + segment.size_bytes == next.address && segment.stream == next.stream &&
         segment.pool == next.pool && segment.is_small == next.is_small;
}

std::vector<SegmentState> segments_at_end(const DeviceRecord& record) {
  const SegmentColumns& rows = record.segments;
  std::vector<SegmentState> pieces;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    if (!rows.is_reserved_at(row, Moment::end())) continue;
    pieces.push_back({record.device, rows.address[row], rows.size_bytes[row], rows.stream[row],
                      rows.pool[row], rows.is_small[row] != 0, rows.is_expandable[row] != 0,
                      rows.stack[row]});
  }
  std::ranges::sort(pieces, {}, &SegmentState::address);
  std::vector<SegmentState> segments;
  for (const SegmentState& piece : pieces) {
    if (!segments.empty() && continues(segments.back(), piece)) {
      segments.back().size_bytes += piece.size_bytes;
    } else {
      segments.push_back(piece);
    }
  }
  return segments;
}

std::vector<BlockState> active_at_end(const DeviceRecord& record) {
  const AllocationColumns& rows = record.allocations;
  std::vector<BlockState> blocks;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    if (!rows.is_active_at(row, Moment::end())) continue;
    const bool is_allocated = rows.is_allocated_at(row, Moment::end());
    blocks.push_back(
        {rows.address[row], rows.size_bytes[row], rows.requested_bytes[row],
         is_allocated ? BlockStateKind::active_allocated : BlockStateKind::active_pending_free,
         rows.stack[row]});
  }
  std::ranges::sort(blocks, {}, &BlockState::address);
  return blocks;
}

void push_free(ListedState& state, std::uint64_t from, std::uint64_t to) {
  if (from < to) state.blocks.push_back({from, to - from, 0, BlockStateKind::inactive, {}});
}

}  // namespace

ListedState state_at_end(const DeviceRecord& record, bool is_listed) {
  if (is_listed || record.events.empty()) return record.final_state;
  ListedState state;
  state.segments = segments_at_end(record);
  const std::vector<BlockState> active = active_at_end(record);
  auto block = active.begin();
  for (const SegmentState& segment : state.segments) {
    const std::uint64_t end = segment.address + segment.size_bytes;
    std::uint64_t free_from = segment.address;
    while (block != active.end() && block->address < segment.address)
      ++block;  // in no known segment
    for (; block != active.end() && block->address < end; ++block) {
      push_free(state, free_from, block->address);
      state.blocks.push_back(*block);
      free_from = block->address + block->size_bytes;
    }
    push_free(state, free_from, end);
    state.first_block.push_back(static_cast<std::uint32_t>(state.blocks.size()));
  }
  return state;
}

}  // namespace gpumemprof
