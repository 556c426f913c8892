// Replay of memory without a pool: CPU tensors. A block has exactly the requested size and is
// returned immediately when freed, so there are no segments, and allocated, active, reserved and
// requested bytes are all equal.
#pragma once

#include "replay/replay.h"
#include "store/store.h"

namespace gpumemprof {

// Fills record.allocations.
DeviceReplay replay_poolless(DeviceRecord& record);

}  // namespace gpumemprof
