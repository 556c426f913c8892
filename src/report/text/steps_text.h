// The table of training steps as text. Steps that look the same share one line, so that the first,
// the largest and the odd ones stand out.
#pragma once

#include <string>

#include "analysis/sources/sources.h"
#include "report/text/overview/overview_text.h"

namespace gpumemprof::text {

std::string step_table(const DeviceSources& sources, const TextStyle& style);

}  // namespace gpumemprof::text
