// The advice as a person reads it whose job ran out of memory.
#pragma once

#include <string>

#include "analysis/advice/advice.h"
#include "report/text/overview_text.h"

namespace gpumemprof {

std::string advice_text(const Advice& advice, const TextStyle& style);

}  // namespace gpumemprof
