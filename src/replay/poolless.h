// Replay of memory without a pool: CPU tensors. A block is what was asked for and goes back at
// once, so there are no segments, and allocated, active, reserved and requested are one figure.
#pragma once

#include "replay/replay.h"
#include "store/store.h"

namespace gpumemprof {

// Fills record.allocations.
DeviceReplay replay_poolless(DeviceRecord& record);

}  // namespace gpumemprof
