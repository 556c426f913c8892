// The what-if report as text: whether the simulator agrees with the recording, the table of runs,
// the winner and the line to set.
#pragma once

#include <string>

#include "analysis/whatif/whatif.h"
#include "report/text/overview/overview_text.h"

namespace gpumemprof {

std::string whatif_text(const WhatIf& whatif, const TextStyle& style);

}  // namespace gpumemprof
