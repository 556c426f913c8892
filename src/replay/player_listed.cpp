#include "replay/player.h"

namespace gpumemprof {

ListedState Player::listed() const {
  ListedState state;
  const SegmentColumns& rows = record_.segments;
  const AllocationColumns& allocations = record_.allocations;
  for (const auto& [address, row] : live_segments_) {
    const bool is_expandable = rows.is_expandable[row.index] != 0;
    // Adjacent pieces are one run, and its blocks were listed with the first.
    if (is_expandable && !state.segments.empty() && state.segments.back().is_expandable &&
        state.segments.back().address + state.segments.back().size_bytes == address) {
      state.segments.back().size_bytes += rows.size_bytes[row.index];
      continue;
    }
    state.segments.push_back({record_.device, address, rows.size_bytes[row.index],
                              rows.stream[row.index], rows.pool[row.index],
                              rows.is_small[row.index] != 0, is_expandable, rows.stack[row.index]});
    for (std::uint32_t at = blocks_.find(address); at != kNoBlock; at = blocks_[at].next) {
      const Block& block = blocks_[at];
      BlockState listed{block.address, block.size_bytes, 0, BlockStateKind::inactive, StackId()};
      if (!block.is_free()) {
        listed.requested_bytes = allocations.requested_bytes[block.allocation.index];
        listed.stack = allocations.stack[block.allocation.index];
        listed.state = block.is_pending ? BlockStateKind::active_pending_free
                                        : BlockStateKind::active_allocated;
      }
      state.blocks.push_back(listed);
    }
    state.first_block.push_back(static_cast<std::uint32_t>(state.blocks.size()));
  }
  return state;
}

}  // namespace gpumemprof
