// Which single allocations are worth drawing in a range of positions: those that take the most room
// on the screen, bytes times events.
#pragma once

#include "analysis/table/allocation_query.h"
#include "analysis/timeline/live_changes.h"
#include "store/store.h"

namespace gpumemprof {

// Live somewhere in [from, to), at most `most`, in order of birth. `matches` and `matching_bytes`
// count all that are live there.
AllocationPage largest_bands(const DeviceRecord& record, Position from, Position to,
                             std::size_t most);

}  // namespace gpumemprof
