// FloorTable: what each line of code has live at the floor of each repetition of the same work: a
// training step, a request, a call of one line. The floor is the moment of least live memory.
//
// All that deciding needs, in memory that grows with lines and changes, not with events: whoever
// reads a run in parts fills one as it goes. Bytes are requested bytes.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "analysis/growth/step_floors.h"
#include "event/memory_source.h"
#include "store/store.h"

namespace gpumemprof {

// What happened to the memory of one line between a floor and the one before.
struct FloorChange {
  std::int64_t born_bytes = 0;  // live at this floor, not at the one before
  std::int64_t kept_bytes = 0;  // part of these: live at the next floor too
  std::int64_t freed_bytes = 0;
  std::int64_t collected_bytes = 0;  // part of these: freed by the garbage collector
  std::int32_t born_blocks = 0;
  std::int32_t freed_blocks = 0;

  [[nodiscard]] std::int64_t bytes() const { return born_bytes - freed_bytes; }
};

struct SiteFloors {
  StackId stack;             // that ends at the line of user code; none: no stack was recorded
  bool is_backward = false;  // allocated by the backward of this line
  std::map<std::uint32_t, FloorChange> changes;     // by floor; few floors change anything
  std::map<MemorySource, std::int64_t> live_bytes;  // at the last floor
  // All it allocated, also what saw no floor, in the first half of the floors and in the second.
  std::uint64_t made_early_bytes = 0;
  std::uint64_t made_late_bytes = 0;

  // An allocation that is live at these floors.
  void add(FloorRange seen, std::uint64_t bytes, bool is_collected);
};

// The whole device at a floor, and in the repetition that it belongs to.
struct DeviceFloor {
  std::uint32_t step = 0;            // as the program counts, from 1
  std::uint64_t live_bytes = 0;      // at the floor
  std::uint64_t peak_bytes = 0;      // the most allocated in the repetition, as blocks
  std::uint64_t reserved_bytes = 0;  // the most that was reserved in it
  // What the process held outside of the pool when the card was last sampled; kUnknownBytes.
  std::uint64_t outside_bytes = kUnknownBytes;
};

struct FloorTable {
  std::vector<DeviceFloor> floors;
  std::vector<SiteFloors> sites;
  std::uint64_t most_bytes = 0;                      // live at any moment
  std::map<MemorySource, std::uint64_t> live_bytes;  // of all lines at the last floor
};

}  // namespace gpumemprof
