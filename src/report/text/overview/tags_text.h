// Tags and the largest named tensors, as two short tables.
#pragma once

#include <string>

#include "analysis/tags/tags.h"
#include "report/text/overview/overview_text.h"

namespace gpumemprof::text {

// Empty where the program tagged and named nothing. `moment`: e.g. "at the peak".
std::string tag_tables(const TagReport& report, const Store& store, const std::string& moment,
                       const TextStyle& style);

}  // namespace gpumemprof::text
