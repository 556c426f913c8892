// What leaks, as text for a terminal: the verdict first, then each line, what to change, and the
// doubt.
#pragma once

#include <string>

#include "analysis/leaks/leaks.h"
#include "report/text/overview/overview_text.h"

namespace gpumemprof {

std::string leaks_text(const LeaksReport& report, const Store& store, const TextStyle& style);

}  // namespace gpumemprof
