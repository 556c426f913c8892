// Growth as JSON, for every report that has it.
#pragma once

#include <nlohmann/json.hpp>

#include "analysis/growth/growth.h"

namespace gpumemprof {

// null where the recording has too few steps to tell.
nlohmann::ordered_json growth_json(const Growth& growth, const Store& store);

}  // namespace gpumemprof
