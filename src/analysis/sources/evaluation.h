// Evaluation between training steps: forward code of which no backward uses anything.
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/sources/code_kind.h"
#include "analysis/sources/sources.h"

namespace gpumemprof {

// Events that are plainly of one phase, from the first to the last.
struct Region {
  Phase phase = Phase::other;
  std::uint32_t first = 0;
  std::uint32_t last = 0;
  bool has_request = false;
};

// The regions, with evaluation told from forward: calls of which nothing is there any more when the
// forward begins that is trained. What a teacher makes is still there, so it stays forward.
std::vector<Region> with_evaluation(const DeviceRecord& record, const std::vector<CodeKind>& kinds,
                                    const std::vector<Region>& regions);

}  // namespace gpumemprof
