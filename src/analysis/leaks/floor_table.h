// FloorTable: what each line of code has live at the floor of each repetition of the same work: a
// training step, a request, a call of one line. The floor is the moment of least live memory.
//
// All that deciding needs, in memory that grows with lines and floors, not with events: whoever
// reads a run in parts fills one as it goes. Bytes are requested bytes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "analysis/growth/step_floors.h"
#include "analysis/leaks/site_trend.h"
#include "event/memory_source.h"
#include "store/store.h"

namespace gpumemprof {

struct SiteFloors {
  StackId stack;             // that ends at the line of user code; none: no stack was recorded
  bool is_backward = false;  // allocated by the backward of this line
  std::map<std::uint32_t, FloorChange> changes;     // by floor; few floors change anything
  std::optional<TrendFollower> settled;             // the floors before those
  std::map<MemorySource, std::int64_t> live_bytes;  // at the last floor
  // All it allocated, also what saw no floor, in the first half of the floors and in the second.
  std::uint64_t made_early_bytes = 0;
  std::uint64_t made_late_bytes = 0;

  // An allocation that is live at these floors.
  void add(FloorRange seen, std::uint64_t bytes, bool is_collected);
  // An allocation that was added: the garbage collector freed it before this floor.
  void add_collected(std::size_t floor, std::uint64_t bytes);
  // Nothing changes any more at floors before this one: they are summed up. `floors`: in total.
  void settle(std::size_t before_floor, std::size_t floors);
  // All of its floors.
  [[nodiscard]] TrendFollower followed(std::size_t floors) const;
};

// The whole device at a floor, and in the repetition that it belongs to.
struct DeviceFloor {
  std::uint32_t step = 0;            // as the program counts, from 1
  std::uint64_t peak_bytes = 0;      // the most live in the repetition, as requested
  std::uint64_t reserved_bytes = 0;  // the most that was reserved in it
  // What the process held outside of the pool when the card was last sampled; kUnknownBytes.
  std::uint64_t outside_bytes = kUnknownBytes;
};

struct FloorTable {
  std::vector<DeviceFloor> floors;
  std::vector<SiteFloors> sites;
  std::map<MemorySource, std::uint64_t> live_bytes;  // of all lines at the last floor
};

}  // namespace gpumemprof
