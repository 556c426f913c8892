// The sentence about leaks, for every report that has it.
#pragma once

#include <string>

#include "analysis/leaks/leaks.h"

namespace gpumemprof::text {

std::string leak_verdict_sentence(const DeviceLeaks& device, const Store& store);

}  // namespace gpumemprof::text
