// The sentence about memory that grows from step to step.
#pragma once

#include <string>
#include <vector>

#include "analysis/growth/growth.h"
#include "analysis/leaks/leaks.h"

namespace gpumemprof::text {

// Empty where nothing grows, or too few steps were recorded to tell.
std::string growth_sentence(const Growth& growth, const Store& store);

// The same with the verdict about leaks: growth that is none is left out, and what grows without
// steps, outside of the pool or in cycles is named.
std::string growth_verdict(const Growth& growth, const std::optional<DeviceLeaks>& leaks,
                           const Store& store);

// The lines that leak, a line of text each, without their indentation; empty where none does.
std::vector<std::string> leaking_lines(const std::optional<DeviceLeaks>& leaks, const Store& store,
                                       std::size_t width);

}  // namespace gpumemprof::text
