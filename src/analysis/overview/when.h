// Places an event in time: how long after the first, in which step, inside which annotation.
#pragma once

#include "analysis/overview/overview.h"

namespace gpumemprof {

When when_of(const Store& store, const DeviceRecord& record, std::uint32_t event);

}  // namespace gpumemprof
