// Which blocks keep segments from being returned, and what that costs.
//
// A segment is returned to the driver only when nothing in it is used. One small block that stays
// live is enough to keep the rest of its segment reserved: it pins the segment.
#pragma once

#include <vector>

#include "store/store.h"

namespace gpumemprof {

struct PinnedSegment {
  std::uint64_t address = 0;
  std::uint64_t size_bytes = 0;
  std::uint64_t free_bytes = 0;  // what the pin wastes
  std::uint64_t blocks = 0;      // in use in it
  // The block that has been live longest:
  std::uint64_t pin_bytes = 0;
  std::uint32_t pin_event = kNoEvent;  // its allocation; none: before the history
  StackId pin_stack;
};

// The same, summed over the lines of code that allocated the pins.
struct PinningLine {
  FrameId frame;  // in the user's own code; none: no stack was recorded
  std::uint64_t segments = 0;
  std::uint64_t free_bytes = 0;
  std::uint64_t pin_bytes = 0;
};

// Why reserved bytes were free. The parts add up to free_bytes.
struct FreeShares {
  std::uint64_t free_bytes = 0;
  std::uint64_t other_stream_bytes =
      0;                           // belongs to streams other than the busiest, which cannot use it
  std::uint64_t pinned_bytes = 0;  // next to blocks in use
  std::uint64_t surplus_bytes = 0;  // whole free segments: the pool is currently larger than needed
};

struct PinReport {
  std::vector<PinnedSegment> segments;  // most free bytes first
  std::vector<PinningLine> lines;       // most free bytes first
  FreeShares shares;
};

PinReport find_pins(const DeviceRecord& record, const Store& store, Moment moment);

}  // namespace gpumemprof
