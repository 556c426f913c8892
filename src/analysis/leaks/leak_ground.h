// LeakGround: what a verdict about leaks is made from. It takes little memory, however long the run
// was: whoever reads a run in parts finds it too.
#pragma once

#include <vector>

#include "analysis/leaks/fill_table.h"
#include "analysis/leaks/repetitions.h"

namespace gpumemprof {

struct LeakGround {
  DeviceIndex device = 0;
  RunKind kind = RunKind::unknown;
  RepetitionKind repetition = RepetitionKind::none;
  StackId line;  // calls, lines: which
  StepFloors floors;
  FloorTable table;
  std::vector<KeptAllocation> kept;  // in order of birth
};

// From a whole recording; the record must have labels.
LeakGround find_leak_ground(const Store& store, const DeviceRecord& record,
                            const std::vector<PhaseSpan>& spans);

}  // namespace gpumemprof
