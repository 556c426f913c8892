// Advice for a run without backward: what weights, the KV cache and activations would take if they
// were smaller.
//
// Each remedy is a set of factors on the sources. The recorded run is traversed once, and the peak
// of every remedy is that of the scaled sums, at its own moment. Rounding and what a remedy leaves
// unchanged (embeddings, scales, a window kept in full precision) make up the band.
#pragma once

#include <string>

#include "analysis/advice/advice.h"

namespace gpumemprof {

// Out of memory, and no model was called again after it.
bool is_inference_cut_short(const Store& store, const DeviceRecord& record);

Result<Advice> advise_inference(const Store& store, const DeviceRecord& record,
                                const DeviceReplay& replay, std::string path,
                                const AdviceOptions& options);

}  // namespace gpumemprof
