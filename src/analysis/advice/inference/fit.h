// Which remedies for inference, alone or combined, keep a run without backward below a limit.
#pragma once

#include <string>
#include <vector>

#include "analysis/advice/advice.h"
#include "analysis/advice/inference/inference_run.h"
#include "analysis/advice/inference/remedies/inference_remedy.h"
#include "base/result.h"

namespace gpumemprof {

// The band of a peak, from the scaled peaks at its middle and its ends.
PredictedBytes inference_band(std::uint64_t bytes, std::uint64_t least, std::uint64_t most);

// Several remedies combined into one; an empty set changes nothing.
InferenceRemedy combined(const std::vector<const InferenceRemedy*>& remedies);

// Whether both can be used at once: weights can be shrunk only once, and the cache has only one
// layout.
bool go_together(const InferenceRemedy& one, const InferenceRemedy& other);

struct InferenceLimit {
  std::uint64_t bytes = 0;
  std::uint64_t peak_allocated_bytes = 0;  // of the recorded run
  std::uint64_t needed_bytes = 0;          // what it takes unchanged: reserved, if there is a pool
  std::optional<std::uint64_t> batch;      // samples in a recorded batch
};

FitPlan find_inference_fit(const InferenceRun& run, const std::vector<InferenceRemedy>& remedies,
                           const InferenceLimit& limit);

}  // namespace gpumemprof
