// Replay of memory without a pool: CPU tensors. A block has exactly the requested size and is
// returned immediately when freed, so there are no segments, and allocated, active, reserved and
// requested bytes are all equal.
#pragma once

#include <vector>

#include "base/flat_map.h"
#include "replay/lifetime_listener.h"
#include "replay/replay.h"
#include "store/store.h"

namespace gpumemprof {

class PoollessPlayer {
 public:
  // With a listener, rows of allocations that are gone are used again.
  explicit PoollessPlayer(DeviceRecord& record, LifetimeListener* listener = nullptr)
      : allocations_(record.allocations), listener_(listener) {
    allocations_.clear();
  }

  // What was live before the first event.
  void begin_with(const ListedState& listed);
  // Events [begin, end) of the next ones; `first` is the row of the first of all.
  void play(const EventColumns& events, std::uint32_t first, std::size_t begin, std::size_t end);

  [[nodiscard]] MemoryTotals now() const;
  // Forgets all rows but these, in order: those of allocations that are gone. The rest moves up.
  void keep_rows(const std::vector<std::uint32_t>& kept);
  // The allocation that is live at an address; none if there is none.
  [[nodiscard]] AllocationId live_at(std::uint64_t address) const {
    const std::uint32_t* row = rows_.find(address);
    return row == nullptr ? AllocationId() : AllocationId(*row);
  }
  // What is live, each allocation as a segment of its own.
  [[nodiscard]] ListedState listed() const;
  [[nodiscard]] const DeviceReplay& result() const { return result_; }

 private:
  std::uint32_t add_row(std::uint64_t address, std::uint64_t bytes, std::uint32_t event,
                        std::uint32_t stream, StackId stack);
  void note_peak(std::uint32_t event);
  void allocate(const EventColumns& events, std::size_t index, std::uint32_t event);
  void request_free(std::uint64_t address, std::uint32_t event);
  void finish(std::uint64_t address, std::uint32_t event);
  void end(std::uint32_t row, std::uint32_t event);

  AllocationColumns& allocations_;
  LifetimeListener* listener_;
  FlatMap<std::uint32_t> rows_;  // address → row of the live allocation there
  std::vector<std::uint32_t> free_rows_;
  std::uint64_t live_bytes_ = 0;
  DeviceReplay result_;
};

// Fills record.allocations.
DeviceReplay replay_poolless(DeviceRecord& record);

}  // namespace gpumemprof
