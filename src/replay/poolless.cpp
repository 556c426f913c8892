#include "replay/poolless.h"

#include "base/flat_map.h"

namespace gpumemprof {
namespace {

MemoryTotals totals_of(std::uint64_t bytes) { return {bytes, bytes, bytes, bytes}; }

class PoollessPlayer {
 public:
  explicit PoollessPlayer(DeviceRecord& record)
      : allocations_(record.allocations), events_(record.events) {
    allocations_.clear();
  }

  void play() {
    for (std::uint32_t event = 0; event < events_.size(); ++event) {
      switch (events_.action[event]) {
        case Action::alloc:
          allocate(event);
          break;
        case Action::free_requested:
          request_free(event);
          break;
        case Action::free_completed:
          complete(event);
          break;
        default:
          break;
      }
    }
  }

  DeviceReplay result;

 private:
  void allocate(std::uint32_t event) {
    const auto row = static_cast<std::uint32_t>(allocations_.size());
    const std::uint64_t address = events_.address[event];
    // Its free is missing: it ended when another allocation took its address.
    if (rows_.find(address) != nullptr) {
      ++result.contradictions;
      finish(address, event);
    }
    rows_.insert_or_assign(address, row);
    const std::uint64_t bytes = events_.size_bytes[event];
    allocations_.address.push_back(address);
    allocations_.size_bytes.push_back(bytes);
    allocations_.requested_bytes.push_back(bytes);
    allocations_.alloc_event.push_back(event);
    allocations_.free_requested_event.push_back(kNoEvent);
    allocations_.free_completed_event.push_back(kNoEvent);
    allocations_.stream.push_back(events_.stream[event]);
    allocations_.stack.push_back(events_.stack[event]);
    allocations_.segment.push_back(SegmentId());
    ++result.counters.allocations;
    live_bytes_ += bytes;
    if (live_bytes_ > result.peak.allocated_bytes) {
      result.peak = totals_of(live_bytes_);
      result.peak_event = event;
      result.peak_reserved_bytes = live_bytes_;
      result.peak_reserved_event = event;
      result.peak_active_bytes = result.peak_requested_bytes = live_bytes_;
    }
    result.end.totals = totals_of(live_bytes_);
  }

  void request_free(std::uint32_t event) {
    const std::uint32_t* row = rows_.find(events_.address[event]);
    if (row == nullptr) {
      ++result.contradictions;
      return;
    }
    ++result.counters.frees;
    allocations_.free_requested_event[*row] = event;
    live_bytes_ -= allocations_.size_bytes[*row];
    result.end.totals = totals_of(live_bytes_);
  }

  void complete(std::uint32_t event) {
    if (rows_.find(events_.address[event]) != nullptr) finish(events_.address[event], event);
  }

  void finish(std::uint64_t address, std::uint32_t event) {
    const std::uint32_t row = *rows_.find(address);
    if (allocations_.free_requested_event[row] == kNoEvent) {
      allocations_.free_requested_event[row] = event;
      live_bytes_ -= allocations_.size_bytes[row];
      result.end.totals = totals_of(live_bytes_);
    }
    allocations_.free_completed_event[row] = event;
    rows_.erase(address);
  }

  AllocationColumns& allocations_;
  const EventColumns& events_;
  FlatMap<std::uint32_t> rows_;  // address → row of the live allocation there
  std::uint64_t live_bytes_ = 0;
};

}  // namespace

DeviceReplay replay_poolless(DeviceRecord& record) {
  PoollessPlayer player(record);
  player.play();
  DeviceReplay& result = player.result;
  result.has_history = true;
  result.has_end = true;
  if (record.lost_events.empty() && result.contradictions == 0) result.exact_from_event = 0;
  record.allocations.shrink_to_fit();
  return result;
}

}  // namespace gpumemprof
