// StepAlignment: which allocation of a whole training step each allocation of an interrupted step
// repeats, and where in the whole step the interruption falls.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "analysis/advice/run/run_facts.h"
#include "store/store.h"

namespace gpumemprof {

struct StepAlignment {
  std::unordered_map<std::uint32_t, std::uint32_t> like;  // row of the broken step → of the whole
  std::uint32_t resume_event = 0;  // the whole step's event at which the other one was interrupted
  // If it was interrupted while loading its batch, and the whole step is the first: what was loaded
  // before that step, as setup, and has yet to be loaded again.
  std::vector<std::uint32_t> missing_batch;
  // By what factor allocations of the broken step are larger, if they grew at all.
  double size_factor = 1;
};

// `whole` and `broken` are events of the two steps; the latter ends where memory ran out. None if
// the two do not make the same allocations.
std::optional<StepAlignment> align_steps(const DeviceRecord& record, EventRange whole,
                                         EventRange broken);

}  // namespace gpumemprof
