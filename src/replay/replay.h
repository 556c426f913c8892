// Replay: plays a device's events through the allocator's rules, so that every block's true size
// and every total is known after every event.
//
// A trace stores what was requested; blocks are larger. A block's size follows from where it was
// placed: the request, rounded, or the whole free block where the rules do not split it.
//
// A history that starts late is completed by playing backwards from the segments listed at the end.
// Where that leaves a block's size unknown, or events are missing, `exact_from_event` gives the
// event from which every figure is exact.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "event/allocator_settings.h"
#include "event/provenance.h"
#include "store/store.h"

namespace gpumemprof {

struct MemoryTotals {
  std::uint64_t allocated_bytes = 0;
  std::uint64_t active_bytes = 0;
  std::uint64_t reserved_bytes = 0;
  std::uint64_t requested_bytes = 0;  // of active blocks, as PyTorch counts it
  bool operator==(const MemoryTotals&) const = default;
};

struct EndState {
  MemoryTotals totals;
  std::uint64_t inactive_split_bytes =
      0;                          // free parts of split plain segments, as PyTorch counts it
  std::uint64_t segments = 0;     // plain ones, as PyTorch counts them
  std::uint64_t mapped_runs = 0;  // of expandable segments
};

struct EventCounters {
  std::uint64_t allocations = 0;
  std::uint64_t frees = 0;
  std::uint64_t segment_allocs = 0;
  std::uint64_t segment_frees = 0;
  std::uint64_t segment_maps = 0;
  std::uint64_t segment_unmaps = 0;
  // How often the pool was flushed because a request was refused. No event marks it, and
  // empty_cache() leaves the same events: unknown where the two cannot be distinguished.
  std::optional<std::uint64_t> alloc_retries = 0;
  std::uint64_t unclear_retries = 0;  // how often they could not be distinguished
  bool are_retries_counted = false;   // by torch itself; otherwise derived from the events
  std::uint64_t ooms = 0;
};

struct DeviceReplay {
  // The moment with the most allocated bytes. No event: already reached when the history began.
  MemoryTotals peak;
  std::uint32_t peak_event = kNoEvent;
  std::uint64_t peak_reserved_bytes = 0;
  std::uint32_t peak_reserved_event = kNoEvent;
  // Each at its own moment, as PyTorch counts them.
  std::uint64_t peak_active_bytes = 0;
  std::uint64_t peak_requested_bytes = 0;
  MemoryTotals start;  // before the first event
  EndState end;
  EventCounters counters;

  bool has_history = false;  // false: only the end is known
  bool has_end = false;      // false: the file was cut off, `end` is the last state in it
  std::optional<std::uint32_t> exact_from_event;  // none: never exact
  std::uint64_t contradictions = 0;               // events that did not fit the state before them
  std::uint64_t blocks_from_before = 0;           // live when the history began
};

// Fills record.allocations and record.segments.
DeviceReplay replay_device(DeviceRecord& record, const AllocatorSettings& settings,
                           const Origin& origin);

}  // namespace gpumemprof
