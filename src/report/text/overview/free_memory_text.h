// Reserved memory that is not allocated, as text: where it is, what keeps it from being returned,
// which streams can use it.
#pragma once

#include <string>

#include "analysis/overview/overview.h"
#include "report/text/overview/overview_text.h"
#include "store/store.h"

namespace gpumemprof::text {

// `moment` names the requested moment, e.g. "at the peak".
std::string free_memory_section(const DeviceOverview& device, const Store& store,
                                const std::string& moment, const TextStyle& style);

}  // namespace gpumemprof::text
