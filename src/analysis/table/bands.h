// Which single allocations are worth drawing in a range of positions: those that take most room on
// the screen, bytes times events.
#pragma once

#include <vector>

#include "analysis/timeline/live_changes.h"
#include "store/store.h"

namespace gpumemprof {

// Alive somewhere in [from, to), at most `most`, in order of birth.
std::vector<AllocationId> largest_bands(const DeviceRecord& record, Position from, Position to,
                                        std::size_t most);

}  // namespace gpumemprof
