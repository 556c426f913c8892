// LiveReport → JSON, in one line.
#pragma once

#include <string>

#include "follow/live_report.h"

namespace gpumemprof {

std::string live_json(const LiveReport& report);

}  // namespace gpumemprof
