// Locates an event in time: how long after the first, in which step, inside which annotation.
#pragma once

#include "analysis/overview/overview.h"

namespace gpumemprof {

// `phases` are those of the device, as find_phases() returns them.
When when_of(const Store& store, const DeviceRecord& record, const std::vector<PhaseSpan>& phases,
             std::uint32_t event);

}  // namespace gpumemprof
