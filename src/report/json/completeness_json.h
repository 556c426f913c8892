// How a recording ended and what is missing from it, as JSON; unknown is null.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "analysis/completeness/completeness.h"

namespace gpumemprof {

nlohmann::ordered_json completeness_json(const Completeness& found);
// The same, as text.
std::string completeness_document(const Completeness& found);

}  // namespace gpumemprof
