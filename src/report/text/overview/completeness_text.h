// What is missing from a recording, in sentences; the first lines of every output.
#pragma once

#include <string>
#include <vector>

#include "analysis/completeness/completeness.h"

namespace gpumemprof::text {

// None where nothing is known to be missing.
std::vector<std::string> missing_sentences(const Completeness& completeness);

}  // namespace gpumemprof::text
