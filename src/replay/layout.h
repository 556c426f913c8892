// Layout: every segment and block of a device at any moment, from the lifetimes found by replay.
#pragma once

#include <vector>

#include "store/store.h"

namespace gpumemprof {

// In address order. Adjacent mapped pieces form one run.
std::vector<SegmentState> segments_at(const DeviceRecord& record, Moment moment);

// The same with their blocks, including free ones.
ListedState layout_at(const DeviceRecord& record, Moment moment);

}  // namespace gpumemprof
