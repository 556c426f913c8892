// Evaluation between training steps: forward code whose results no backward uses.
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/code/code_kind.h"
#include "analysis/sources/sources.h"

namespace gpumemprof {

// Events that clearly belong to one phase, from the first to the last.
struct Region {
  Phase phase = Phase::other;
  std::uint32_t first = 0;
  std::uint32_t last = 0;
  bool has_request = false;
};

// The regions, with evaluation split from forward: calls that open a forward and keep nothing for
// the backward that follows, made from a line that never calls a model for training, or by one that
// goes on to call it for training. What a teacher computes is used by the trained model, so it
// stays forward.
std::vector<Region> with_evaluation(const Store& store, const DeviceRecord& record,
                                    const std::vector<CodeKind>& kinds,
                                    const std::vector<Region>& regions);

}  // namespace gpumemprof
