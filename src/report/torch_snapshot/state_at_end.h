// The allocator's state at the end of a recording, as PyTorch lists it: segments with all their
// blocks, in order of address. Listed by the recording itself, or else made from what replay found.
#pragma once

#include "store/store.h"

namespace gpumemprof {

ListedState state_at_end(const DeviceRecord& record, bool is_listed);

}  // namespace gpumemprof
