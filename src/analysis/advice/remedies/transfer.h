// What moving memory between the GPU and the host costs.
#pragma once

#include <cstdint>
#include <optional>

#include "analysis/advice/remedies/remedy.h"

namespace gpumemprof {

// As if nothing was computed in the meantime; none if the recording has no times, or there is no
// GPU.
std::optional<Slowdown> transfer_slowdown(const AdvisedRun& run, std::uint64_t bytes_per_pass);

}  // namespace gpumemprof
