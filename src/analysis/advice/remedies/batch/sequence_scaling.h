// Longer and shorter sequences. What is allocated per token grows with the number of tokens;
// token-by-token matrices, which attention allocates without a fused kernel, grow with its square.
#pragma once

#include "analysis/advice/remedies/rewrite.h"

namespace gpumemprof {

// Sequences `factor` times as long.
void scale_sequence(Rewrite& rewrite, double factor);

}  // namespace gpumemprof
