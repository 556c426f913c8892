// StepRange: the events of one training step, and which of its phases they reach.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "analysis/advice/run/run_facts.h"
#include "analysis/sources/sources.h"

namespace gpumemprof {

struct StepRange {
  std::uint32_t step = 0;
  EventRange events;
  bool has_forward = false;
  bool has_backward = false;   // after a forward
  bool has_optimizer = false;  // after a backward
};

// The steps of a run in order, without what precedes the first. `events`: how many events it has.
std::vector<StepRange> find_steps(const std::vector<PhaseSpan>& spans, std::size_t events);

}  // namespace gpumemprof
