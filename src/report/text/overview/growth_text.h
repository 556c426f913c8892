// The sentence about memory that grows from step to step.
#pragma once

#include <string>

#include "analysis/growth/growth.h"

namespace gpumemprof::text {

// Empty where nothing grows, or too few steps were recorded to tell.
std::string growth_sentence(const Growth& growth, const Store& store);

}  // namespace gpumemprof::text
