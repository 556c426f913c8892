// Sorts what a file says about positions before anything uses it.
#pragma once

#include "store/store.h"

namespace gpumemprof {

// Labellings, phase marks and losses in order of their position, none of them past the last event.
// A recorder writes them this way; a damaged or forged file may not.
void settle_positions(DeviceRecord& record);

}  // namespace gpumemprof
