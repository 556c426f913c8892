// Layout: every segment and block of a device at any moment, from the lifetimes that replay found.
#pragma once

#include "store/store.h"

namespace gpumemprof {

// In address order, free blocks included. Mapped pieces that touch are one run.
ListedState layout_at(const DeviceRecord& record, Moment moment);

}  // namespace gpumemprof
