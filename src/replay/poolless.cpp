#include "replay/poolless.h"

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

void PoollessPlayer::keep_rows(const std::vector<bool>& is_kept) {
  const Column<std::uint32_t> places = keep_only(allocations_, is_kept);
  for (std::uint32_t row = 0; row < places.size(); ++row) {
    const std::uint32_t place = places[row];
    if (place == AllocationId::kNone || allocations_.free_completed_event[place] != kNoEvent)
      continue;
    std::uint32_t* known = rows_.find(allocations_.address[place]);
    if (known != nullptr && *known == row) *known = place;
  }
}

void PoollessPlayer::allocate(const EventColumns& events, std::size_t index, std::uint32_t event) {
  const std::uint64_t address = events.address[index];
  // Its free is missing: it ended when another allocation took its address.
  if (rows_.find(address) != nullptr) {
    ++result_.contradictions;
    finish(address, event);
  }
  const std::uint32_t row = take_row(free_rows_, allocations_.size());
  rows_.insert_or_assign(address, row);
  const std::uint64_t bytes = events.size_bytes[index];
  put(allocations_.address, row, address);
  put(allocations_.size_bytes, row, bytes);
  put(allocations_.requested_bytes, row, bytes);
  put(allocations_.alloc_event, row, event);
  put(allocations_.free_requested_event, row, kNoEvent);
  put(allocations_.free_completed_event, row, kNoEvent);
  put(allocations_.stream, row, events.stream[index]);
  put(allocations_.stack, row, events.stack[index]);
  put(allocations_.segment, row, SegmentId());
  ++result_.counters.allocations;
  live_bytes_ += bytes;
  if (live_bytes_ > result_.peak.allocated_bytes) {
    result_.peak = totals_of(live_bytes_);
    result_.peak_event = event;
    result_.peak_reserved_bytes = live_bytes_;
    result_.peak_reserved_event = event;
    result_.peak_active_bytes = result_.peak_requested_bytes = live_bytes_;
  }
  if (listener_ != nullptr) listener_->allocated(AllocationId(row));
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

DeviceReplay replay_poolless(DeviceRecord& record) {
  PoollessPlayer player(record);
  player.play(record.events, 0, 0, record.events.size());
  DeviceReplay result = player.result();
  result.end.totals = player.now();
  result.has_history = true;
  result.has_end = true;
  if (record.lost_events.empty() && result.contradictions == 0) result.exact_from_event = 0;
  record.allocations.shrink_to_fit();
  return result;
}

}  // namespace gpumemprof
