// A report about one event of a long run, from its index and the stretch that holds the event.
#pragma once

#include "analysis/overview/overview.h"
#include "index/run_index.h"

namespace gpumemprof {

// What `at_peak`, of the index, says about the whole run, and what the stretch shows at the event.
Result<DeviceOverview> look_at_event(const RunIndex& index, const DeviceOverview& at_peak,
                                     std::uint32_t event);

}  // namespace gpumemprof
