// AllocationRow: one allocation of a run, complete in itself: its events are numbered as the run
// numbers them, so that rows of a run that is read in windows equal those of one read whole.
#pragma once

#include <cstdint>
#include <optional>

#include "event/memory_source.h"
#include "store/store.h"

namespace gpumemprof {

struct AllocationRow {
  DeviceIndex device = 0;
  std::uint32_t birth = kNoEvent;  // none: before the history began
  std::uint32_t free = kNoEvent;   // its owner freed it; none: live at the end
  bool was_pending_at_start = false;
  std::uint64_t size_bytes = 0;  // of the block
  std::uint64_t requested_bytes = 0;
  StackId stack;  // its own; of memory that a backward without a stack allocated, of the forward
  bool is_backward = false;
  StackId forward_stack;  // as recorded, for searching
  std::optional<MemorySource> source;
  bool is_source_measured = false;
  StringId name;                        // of the tensor
  StringId tag;                         // that it was allocated under
  std::uint32_t step = 0;               // 0: before the first, or no steps were recognized
  std::int64_t time_ns = kUnknownTime;  // of its birth; unknown: before the history, or no times
  // To its free: unknown for what is live at the end, for what is older than the history, or
  // without times.
  std::int64_t lifetime_ns = kUnknownTime;

  // The same in events, which are always known.
  [[nodiscard]] std::optional<std::uint32_t> lifetime_events() const {
    if (birth == kNoEvent || free == kNoEvent || free < birth) return std::nullopt;
    return free - birth;
  }
  // Allocated and not yet freed.
  [[nodiscard]] bool is_allocated_at(Moment moment) const {
    return moment.is_within(birth, free) && !(moment == Moment::start() && was_pending_at_start);
  }
};

}  // namespace gpumemprof
