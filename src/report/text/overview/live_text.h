// What was live at a moment, by line of the user's code, and where in the libraries it was
// allocated.
#pragma once

#include <string>

#include "analysis/overview/overview.h"
#include "report/text/overview/overview_text.h"
#include "store/store.h"

namespace gpumemprof::text {

// `when`: "at the peak".
std::string live_table(const DeviceOverview& device, const Store& store, const std::string& when,
                       const TextStyle& style);

}  // namespace gpumemprof::text
