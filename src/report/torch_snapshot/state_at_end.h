// The allocator's state at the end of a recording, as PyTorch lists it: segments with all their
// blocks, in address order. Listed by the recording itself, or else derived from replay.
#pragma once

#include "store/store.h"

namespace gpumemprof {

ListedState state_at_end(const DeviceRecord& record, bool is_listed);

}  // namespace gpumemprof
