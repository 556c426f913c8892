// What both ways of half precision ask: whether a result has the same size in every precision.
#pragma once

#include "analysis/advice/run_facts.h"

namespace gpumemprof {

// Masks of one byte an element, indices of eight, and the statistics of norms.
bool is_fixed(const RunFacts& facts, const ForwardPass& pass, const Operation& operation,
              std::uint32_t place);

}  // namespace gpumemprof
