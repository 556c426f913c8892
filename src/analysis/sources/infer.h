// Inference: what allocations are for if no label says so, from stacks, sizes, lifetimes and
// repetition.
#pragma once

#include <vector>

#include "analysis/sources/sources.h"

namespace gpumemprof {

// Gives a source to the rows of `labels` that are not measured; those without evidence stay
// unknown.
void infer_sources(const Store& store, const DeviceRecord& record,
                   const std::vector<PhaseSpan>& spans, RunKind kind, AllocationLabels& labels);

}  // namespace gpumemprof
