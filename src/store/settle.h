// Puts what a file says of positions in order before anything is made of it.
#pragma once

#include "store/store.h"

namespace gpumemprof {

// Labellings, phase marks and losses in order of their position, none of them behind the last
// event. A recorder writes them so; a damaged or forged file need not.
void settle_positions(DeviceRecord& record);

}  // namespace gpumemprof
