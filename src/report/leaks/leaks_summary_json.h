// The verdict about leaks as JSON, for every report that has it.
#pragma once

#include <nlohmann/json.hpp>

#include "analysis/leaks/leaks.h"

namespace gpumemprof {

nlohmann::ordered_json leaks_summary_json(const DeviceLeaks& device, const Store& store);

}  // namespace gpumemprof
