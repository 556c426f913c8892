// Larger and smaller batches, and gradients summed over several of them.
#pragma once

#include "analysis/advice/remedies/rewrite.h"

namespace gpumemprof {

// Batches `factor` times as large.
void scale_batch(Rewrite& rewrite, double factor);

// Several passes of the recorded size before each step: gradients are live while forward runs.
void accumulate_gradients(Rewrite& rewrite);

}  // namespace gpumemprof
