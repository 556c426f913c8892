// Layout: every segment and block of a device at any moment, from the lifetimes that replay found.
#pragma once

#include <vector>

#include "store/store.h"

namespace gpumemprof {

// In address order. Mapped pieces that touch are one run.
std::vector<SegmentState> segments_at(const DeviceRecord& record, Moment moment);

// The same with their blocks, free ones included.
ListedState layout_at(const DeviceRecord& record, Moment moment);

}  // namespace gpumemprof
