// Events that lead over a gap between chapters, or to the beginning of an excerpt, are nothing that
// the program did: they are not counted.
#pragma once

#include <cstdint>

#include "event/event.h"
#include "replay/replay.h"

namespace gpumemprof {

inline void leave_out(Action action, std::uint64_t count, EventCounters& counters) {
  switch (action) {
    case Action::alloc:
      counters.allocations -= count;
      break;
    case Action::free_requested:
      counters.frees -= count;
      break;
    case Action::segment_alloc:
      counters.segment_allocs -= count;
      break;
    case Action::segment_free:
      counters.segment_frees -= count;
      break;
    case Action::segment_map:
      counters.segment_maps -= count;
      break;
    case Action::segment_unmap:
      counters.segment_unmaps -= count;
      break;
    default:
      break;
  }
}

}  // namespace gpumemprof
