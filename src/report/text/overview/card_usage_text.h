// From the pool to the card, as text: one column of bytes that adds up at each line.
#pragma once

#include <string>

#include "analysis/card_usage/card_usage.h"

namespace gpumemprof::text {

std::string card_usage_table(const CardUsage& gap);

}  // namespace gpumemprof::text
