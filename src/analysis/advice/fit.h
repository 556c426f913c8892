// The cheapest set of remedies under a memory limit.
#pragma once

#include "analysis/advice/advisor.h"

namespace gpumemprof {

FitPlan find_fit(const Advisor& advisor, std::uint64_t limit_bytes);

}  // namespace gpumemprof
