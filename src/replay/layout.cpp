#include "replay/layout.h"

#include <algorithm>

namespace gpumemprof {
namespace {

SegmentState segment_row(const DeviceRecord& record, std::size_t row) {
  const SegmentColumns& segments = record.segments;
  SegmentState state;
  state.device = record.device;
  state.address = segments.address[row];
  state.size_bytes = segments.size_bytes[row];
  state.stream = segments.stream[row];
  state.pool = segments.pool[row];
  state.is_small = segments.is_small[row] != 0;
  state.is_expandable = segments.is_expandable[row] != 0;
  state.stack = segments.stack[row];
  return state;
}

std::vector<BlockState> blocks_at(const DeviceRecord& record, Moment moment) {
  const AllocationColumns& allocations = record.allocations;
  std::vector<BlockState> blocks;
  for (std::size_t row = 0; row < allocations.size(); ++row) {
    if (!allocations.is_active_at(row, moment)) continue;
    blocks.push_back(
        {allocations.address[row], allocations.size_bytes[row], allocations.requested_bytes[row],
         allocations.is_allocated_at(row, moment) ? BlockStateKind::active_allocated
                                                  : BlockStateKind::active_pending_free,
         allocations.stack[row]});
  }
  std::sort(blocks.begin(), blocks.end(),
            [](const BlockState& a, const BlockState& b) { return a.address < b.address; });
  return blocks;
}

}  // namespace

std::vector<SegmentState> segments_at(const DeviceRecord& record, Moment moment) {
  std::vector<SegmentState> pieces;
  for (std::size_t row = 0; row < record.segments.size(); ++row) {
    if (record.segments.is_reserved_at(row, moment)) pieces.push_back(segment_row(record, row));
  }
  std::sort(pieces.begin(), pieces.end(),
            [](const SegmentState& a, const SegmentState& b) { return a.address < b.address; });
  std::vector<SegmentState> joined;
  for (const SegmentState& piece : pieces) {
    const bool continues = !joined.empty() && piece.is_expandable && joined.back().is_expandable &&
                           joined.back().address + joined.back().size_bytes == piece.address;
    if (continues) {
      joined.back().size_bytes += piece.size_bytes;
    } else {
      joined.push_back(piece);
    }
  }
  return joined;
}

ListedState layout_at(const DeviceRecord& record, Moment moment) {
  ListedState state;
  state.segments = segments_at(record, moment);
  const std::vector<BlockState> used = blocks_at(record, moment);
  std::size_t next = 0;
  for (const SegmentState& segment : state.segments) {
    const std::uint64_t end = segment.address + segment.size_bytes;
    std::uint64_t position = segment.address;
    const auto add_free = [&](std::uint64_t until) {
      if (until > position) state.blocks.push_back({position, until - position, 0, {}, {}});
    };
    while (next < used.size() && used[next].address < segment.address) ++next;
    for (; next < used.size() && used[next].address < end; ++next) {
      add_free(used[next].address);
      state.blocks.push_back(used[next]);
      position = used[next].address + used[next].size_bytes;
    }
    add_free(end);
    state.first_block.push_back(static_cast<std::uint32_t>(state.blocks.size()));
  }
  return state;
}

}  // namespace gpumemprof
