#include "replay/poolless.h"

#include <algorithm>

#include "replay/rows.h"

namespace gpumemprof {
namespace {

MemoryTotals totals_of(std::uint64_t bytes) { return {bytes, bytes, bytes, bytes}; }

}  // namespace

void PoollessPlayer::play(const EventColumns& events, std::uint32_t first, std::size_t begin,
                          std::size_t end) {
  for (std::size_t index = begin; index < end; ++index) {
    const std::uint32_t event = first + static_cast<std::uint32_t>(index);
    switch (events.action[index]) {
      case Action::alloc:
        allocate(events, index, event);
        break;
      case Action::free_requested:
        request_free(events.address[index], event);
        break;
      case Action::free_completed:
        if (rows_.find(events.address[index]) != nullptr) finish(events.address[index], event);
        break;
      default:
        break;
    }
  }
}

MemoryTotals PoollessPlayer::now() const { return totals_of(live_bytes_); }

void PoollessPlayer::keep_rows(const std::vector<std::uint32_t>& kept) {
  keep_only(allocations_, kept);
  for (std::uint32_t row = 0; row < kept.size(); ++row) {
    if (allocations_.free_completed_event[row] != kNoEvent) continue;
    std::uint32_t* known = rows_.find(allocations_.address[row]);
    if (known != nullptr && *known == kept[row]) *known = row;
  }
}

void PoollessPlayer::allocate(const EventColumns& events, std::size_t index, std::uint32_t event) {
  const std::uint64_t address = events.address[index];
  // Its free is missing: it ended when another allocation took its address.
  if (rows_.find(address) != nullptr) {
    ++result_.contradictions;
    finish(address, event);
  }
  const std::uint64_t bytes = events.size_bytes[index];
  const std::uint32_t row =
      add_row(address, bytes, event, events.stream[index], events.stack[index]);
  ++result_.counters.allocations;
  live_bytes_ += bytes;
  if (live_bytes_ > result_.peak.allocated_bytes) note_peak(event);
  if (listener_ != nullptr) listener_->allocated(AllocationId(row));
}

std::uint32_t PoollessPlayer::add_row(std::uint64_t address, std::uint64_t bytes,
                                      std::uint32_t event, std::uint32_t stream, StackId stack) {
  const std::uint32_t row = take_row(free_rows_, allocations_.size());
  rows_.insert_or_assign(address, row);
  put(allocations_.address, row, address);
  put(allocations_.size_bytes, row, bytes);
  put(allocations_.requested_bytes, row, bytes);
  put(allocations_.alloc_event, row, event);
  put(allocations_.free_requested_event, row, kNoEvent);
  put(allocations_.free_completed_event, row, kNoEvent);
  put(allocations_.stream, row, stream);
  put(allocations_.stack, row, stack);
  put(allocations_.segment, row, SegmentId());
  return row;
}

void PoollessPlayer::note_peak(std::uint32_t event) {
  result_.peak = totals_of(live_bytes_);
  result_.peak_event = event;
  result_.peak_reserved_bytes = live_bytes_;
  result_.peak_reserved_event = event;
  result_.peak_active_bytes = result_.peak_requested_bytes = live_bytes_;
}

void PoollessPlayer::begin_with(const ListedState& listed) {
  for (std::size_t index = 0; index < listed.segments.size(); ++index) {
    for (const BlockState& block : listed.blocks_of(index)) {
      if (block.state == BlockStateKind::inactive || rows_.find(block.address) != nullptr ||
          block.address == FlatMap<std::uint32_t>::kEmpty)
        continue;
      const std::uint32_t row = add_row(block.address, block.requested_bytes, kNoEvent,
                                        listed.segments[index].stream, block.stack);
      live_bytes_ += block.requested_bytes;
      ++result_.blocks_from_before;
      if (listener_ != nullptr) listener_->allocated(AllocationId(row));
    }
  }
  if (live_bytes_ > 0) note_peak(kNoEvent);
  result_.start = totals_of(live_bytes_);
}

void PoollessPlayer::request_free(std::uint64_t address, std::uint32_t event) {
  const std::uint32_t* row = rows_.find(address);
  if (row == nullptr) {
    ++result_.contradictions;
    return;
  }
  ++result_.counters.frees;
  end(*row, event);
}

void PoollessPlayer::finish(std::uint64_t address, std::uint32_t event) {
  const std::uint32_t row = *rows_.find(address);
  if (allocations_.free_requested_event[row] == kNoEvent) end(row, event);
  allocations_.free_completed_event[row] = event;
  rows_.erase(address);
  if (listener_ != nullptr) free_rows_.push_back(row);
}

void PoollessPlayer::end(std::uint32_t row, std::uint32_t event) {
  allocations_.free_requested_event[row] = event;
  live_bytes_ -= allocations_.size_bytes[row];
  if (listener_ != nullptr) listener_->freed(AllocationId(row));
}

ListedState PoollessPlayer::listed() const {
  std::vector<std::uint32_t> live;
  rows_.for_each([&](std::uint64_t, std::uint32_t row) {
    if (allocations_.free_requested_event[row] == kNoEvent) live.push_back(row);
  });
  std::ranges::sort(live, {}, [&](std::uint32_t row) { return allocations_.address[row]; });
  ListedState state;
  for (const std::uint32_t row : live) {
    SegmentState segment;
    segment.address = allocations_.address[row];
    segment.size_bytes = allocations_.size_bytes[row];
    segment.stream = allocations_.stream[row];
    segment.stack = allocations_.stack[row];
    state.segments.push_back(segment);
    state.blocks.push_back({segment.address, segment.size_bytes, segment.size_bytes,
                            BlockStateKind::active_allocated, segment.stack});
    state.first_block.push_back(static_cast<std::uint32_t>(state.blocks.size()));
  }
  return state;
}

DeviceReplay replay_poolless(DeviceRecord& record) {
  PoollessPlayer player(record);
  player.begin_with(record.start_state);
  player.play(record.events, 0, 0, record.events.size());
  DeviceReplay result = player.result();
  result.end.totals = player.now();
  result.has_history = true;
  result.has_end = true;
  if (!loses_state(record) && result.contradictions == 0) result.exact_from_event = 0;
  record.allocations.shrink_to_fit();
  return result;
}

}  // namespace gpumemprof
