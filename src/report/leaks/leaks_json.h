// What leaks, as JSON.
#pragma once

#include <string>

#include "analysis/leaks/leaks.h"

namespace gpumemprof {

std::string leaks_json(const LeaksReport& report, const Store& store);

}  // namespace gpumemprof
