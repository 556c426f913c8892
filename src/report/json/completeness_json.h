// How a recording ended and what is missing in it, as JSON; unknown is null.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "analysis/completeness/completeness.h"

namespace gpumemprof {

nlohmann::ordered_json completeness_json(const Completeness& found);

}  // namespace gpumemprof
