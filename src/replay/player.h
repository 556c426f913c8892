// Player: one forward pass over a device's events, from a known start.
//
// Strict: stops at the first event that contradicts the state. Tolerant: follows the recording,
// fixes the state as little as possible, and notes where.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "event/allocator_settings.h"
#include "replay/block_map.h"
#include "replay/history_start.h"
#include "replay/lifetime_listener.h"
#include "replay/replay.h"

namespace gpumemprof {

class Player {
 public:
  enum class Mode : std::uint8_t { strict, tolerant };

  // With a listener, rows of allocations and segments that are gone are used again, so that the
  // tables grow with what is live and not with the length of the run.
  Player(DeviceRecord& record, const AllocatorSettings& settings, Mode mode,
         LifetimeListener* listener = nullptr);

  // Places the blocks and segments of the start; false where they do not fit together.
  bool begin_with(const HistoryStart& start);
  // All events of the record. False where strict mode met a contradiction.
  bool play() { return play(record_.events, 0); }
  // The next events of a run that is read part by part; `first` is the row of the first of them.
  bool play(const EventColumns& events, std::uint32_t first) {
    return play(events, first, 0, events.size());
  }
  // The same, of some of them: [begin, end).
  bool play(const EventColumns& events, std::uint32_t first, std::size_t begin, std::size_t end);

  [[nodiscard]] const MemoryTotals& now() const { return now_; }
  // The allocation that is live at an address; none if there is none.
  [[nodiscard]] AllocationId live_at(std::uint64_t address) const {
    const std::uint32_t block = blocks_.find(address);
    if (block == kNoBlock || blocks_[block].is_pending) return {};
    return blocks_[block].allocation;
  }
  // Forgets all rows but these, in order: those of allocations that are gone. The rest moves up.
  void keep_rows(const std::vector<std::uint32_t>& kept);
  // What the first segment of the run is, if the events that show it come later.
  void start_expandable(bool is_expandable) { expandable_mode_ = is_expandable; }
  // The same, if it was freed and a stream still uses it too.
  [[nodiscard]] AllocationId active_at(std::uint64_t address) const {
    const std::uint32_t block = blocks_.find(address);
    return block == kNoBlock ? AllocationId() : blocks_[block].allocation;
  }
  // The state after what was played, as torch would list it.
  [[nodiscard]] ListedState listed() const;
  // The most reserved since the last call.
  std::uint64_t take_recent_peak_reserved();

  [[nodiscard]] bool end_matches(const ListedState& final_state) const;
  // Blocks of the start whose size was only assumed until an event proved it: address and true
  // size.
  [[nodiscard]] const std::vector<std::pair<std::uint64_t, std::uint64_t>>& corrections() const {
    return corrections_;
  }
  [[nodiscard]] std::uint64_t contradictions() const { return contradictions_; }
  // The first event after which all totals are certain, provided that the end matches; kNoEvent if
  // there is none.
  [[nodiscard]] std::uint32_t exact_from() const;
  // Totals, peaks and counters; `end` as played.
  [[nodiscard]] DeviceReplay summary() const;

 private:
  bool alloc(std::uint32_t event);
  std::uint32_t make_place(std::uint64_t at, std::uint64_t size_bytes);
  [[nodiscard]] bool is_freeable(std::uint32_t block, std::uint64_t size_bytes) const;
  void mark_freed(std::uint32_t block, std::uint32_t event);
  bool free_completed(std::uint32_t event);
  void complete_free(std::uint32_t block, std::uint32_t event);
  [[nodiscard]] bool is_size_of(std::uint32_t block, std::uint64_t size_bytes) const;
  bool segment_event(std::uint32_t event);
  void note_retry(std::uint32_t event);
  [[nodiscard]] std::uint64_t block_size(std::uint32_t block, std::uint64_t requested_bytes) const;
  AllocationId new_allocation(std::uint32_t event, const StartBlock& block, SegmentId segment);
  void end_allocation(std::uint32_t row, std::uint32_t event);
  SegmentId new_segment(std::uint32_t event, const SegmentState& segment);
  void end_segment(std::uint32_t row, std::uint32_t event);
  [[nodiscard]] SegmentId next_segment() const;
  SegmentState segment_of(std::uint32_t event) const;
  void end_segments(std::uint32_t event, std::uint64_t address, std::uint64_t size_bytes);

  bool contradiction(std::uint32_t event);
  [[nodiscard]] bool is_uncertain(std::uint32_t block) const;
  bool correct_previous(std::uint64_t address);
  void confirm_previous(std::uint32_t block);
  bool repair_alloc(std::uint32_t event);
  void repair_free(std::uint32_t event);
  void forget(std::uint32_t block, std::uint32_t event);

  // Columns of the events being played, by row.
  [[nodiscard]] Action action(std::uint32_t event) const { return events_->action[event - first_]; }
  [[nodiscard]] std::uint64_t address(std::uint32_t event) const {
    return events_->address[event - first_];
  }
  [[nodiscard]] std::uint64_t size_bytes(std::uint32_t event) const {
    return events_->size_bytes[event - first_];
  }
  [[nodiscard]] StackId stack(std::uint32_t event) const { return events_->stack[event - first_]; }

  DeviceRecord& record_;
  const EventColumns* events_ = nullptr;
  std::uint32_t first_ = 0;  // row of the first of them
  const AllocatorSettings& settings_;
  Mode mode_;
  LifetimeListener* listener_;
  std::vector<std::uint32_t> free_allocations_;  // rows to use again
  std::vector<std::uint32_t> free_segments_;
  BlockMap blocks_;
  MemoryTotals now_;
  DeviceReplay result_;
  std::uint64_t recent_peak_reserved_ = 0;
  bool expandable_mode_;
  // A burst of segment_free and segment_unmap events, to distinguish retries from empty_cache.
  std::uint32_t burst_end_ = kNoEvent;
  StackId burst_stack_;
  std::uint64_t unclear_retries_ = 0;
  std::map<std::uint64_t, SegmentId> live_segments_;
  // What the last event said about the block of the next.
  std::uint32_t placed_event_ = kNoEvent;
  std::uint64_t placed_address_ = 0;
  std::uint64_t placed_bytes_ = 0;
  std::vector<AllocationId> uncertain_;  // ascending
  std::vector<std::pair<std::uint64_t, std::uint64_t>> corrections_;
  std::uint64_t contradictions_ = 0;
  std::uint32_t last_contradiction_ = 0;
};

}  // namespace gpumemprof
