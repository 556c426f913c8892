// What the recording itself says of its storages, taken before anything is inferred.
#pragma once

#include <vector>

#include "analysis/sources/sources.h"

namespace gpumemprof {

// Gives every row of `labels` that a recorded label names its source, name and flags (kMeasured).
// The columns already have one row for each allocation, all unknown; rows that no label names stay
// so and are inferred. A label names the allocation that was live at its address at its position in
// the events. Returns whether the recording has labels at all.
bool take_labels(const Store& store, const DeviceRecord& record, AllocationLabels& labels);

// The phases as the recorder marked them; empty where it did not, and they are found by stacks.
std::vector<PhaseSpan> marked_phases(const Store& store, const DeviceRecord& record);

}  // namespace gpumemprof
