// The what-if report as JSON.
#pragma once

#include <string>

#include "analysis/whatif/whatif.h"

namespace gpumemprof {

std::string whatif_json(const WhatIf& whatif);

}  // namespace gpumemprof
