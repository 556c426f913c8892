// What the recording itself says about its storages and its steps: read before anything is
// inferred, and what follows from it afterwards.
#pragma once

#include <vector>

#include "analysis/sources/sources.h"

namespace gpumemprof {

// Gives every row of `labels` that a recorded label names its source, name and flags (kMeasured).
// The columns already have one row per allocation, all unknown; rows that no label names stay
// unknown and are inferred. A label names the allocation that was live at its address at its
// position in the events. Returns whether the recording has labels at all.
bool take_labels(const Store& store, const DeviceRecord& record, AllocationLabels& labels);

// Only for a recording with labels, after the rest was inferred. Memory allocated where labelled
// inputs were allocated is inputs too, and likewise for buffers that every forward reallocates.
// What is an activation or a temporary by definition, from the phases of its birth and its death,
// counts as measured.
void settle_by_labels(const Store& store, const DeviceRecord& record,
                      const std::vector<PhaseSpan>& spans, AllocationLabels& labels);

// Events [first, end) ran inside an optimizer's step, as the program's own hooks reported it.
struct MarkedStep {
  std::uint32_t first_event = 0;
  std::uint32_t end_event = 0;
};
std::vector<MarkedStep> marked_optimizer_steps(const DeviceRecord& record);

// The first event of every step that the program marked with gpumemprof.step(), in order.
std::vector<std::uint32_t> marked_step_begins(const DeviceRecord& record);

// The first event after every training step, as the program's optimizers report it: if several take
// turns, after the last of them.
std::vector<std::uint32_t> marked_step_ends(const DeviceRecord& record);

}  // namespace gpumemprof
