// The advice as text, for someone whose job ran out of memory.
#pragma once

#include <string>
#include <vector>

#include "analysis/advice/advice.h"
#include "report/text/overview/overview_text.h"

namespace gpumemprof {

std::string advice_text(const Advice& advice, const Store& store, const TextStyle& style);

// The code to write to use these remedies; all of them where none is named.
std::string advice_code_text(const Advice& advice, const std::vector<std::string>& names,
                             const TextStyle& style);

}  // namespace gpumemprof
