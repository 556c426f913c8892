// The cheapest set of remedies that fits a memory limit.
#pragma once

#include "analysis/advice/advisor.h"

namespace gpumemprof {

// `sequence`: tokens in a recorded sequence, if known.
FitPlan find_fit(const Advisor& advisor, std::uint64_t limit_bytes,
                 std::optional<std::uint64_t> sequence);

}  // namespace gpumemprof
