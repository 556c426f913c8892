// The advice as JSON.
#pragma once

#include <string>

#include "analysis/advice/advice.h"

namespace gpumemprof {

std::string advice_json(const Advice& advice, const Store& store);

}  // namespace gpumemprof
