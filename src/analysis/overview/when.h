// Locates an event in time: how long after the first, in which step, inside which annotation.
#pragma once

#include "analysis/overview/overview.h"

namespace gpumemprof {

// The same without the record: the event's own time and that of the device's first event.
When when_at(const Store& store, DeviceIndex device, const std::vector<PhaseSpan>& phases,
             std::uint32_t event, std::int64_t time_ns, std::int64_t first_time_ns);

// `phases` are those of the device, as find_phases() returns them.
When when_of(const Store& store, const DeviceRecord& record, const std::vector<PhaseSpan>& phases,
             std::uint32_t event);

}  // namespace gpumemprof
