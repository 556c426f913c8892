// Of a checkpoint's allocations, neighbours have similar addresses, times and births: stored are
// the steps from one to the next, which take a few bytes.
#pragma once

#include "windows/checkpoint.h"

namespace gpumemprof {

void to_steps(std::vector<OldAllocation>& allocations);
// Whatever the numbers are: a forged index may hold any.
void from_steps(std::vector<OldAllocation>& allocations);

}  // namespace gpumemprof
