// What the recording itself says about its storages and its steps: read before anything is
// inferred, and what follows from it afterwards.
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/code/code_kind.h"
#include "analysis/sources/sources.h"
#include "base/flat_map.h"
#include "event/label.h"

namespace gpumemprof {

// The last label of an allocation that is said behind what is in memory.
struct LateLabel {
  LabelKind kind = LabelKind::parameter;
  StringId name;
};

// Where labelled memory is allocated: what else is allocated there is of the same kind, though no
// label names it.
struct LabelledPlaces {
  struct Buffer {
    StringId name;
    std::uint64_t requested_bytes = 0;
  };
  FlatMap<StringId> inputs;  // by stack: the name of the last one
  FlatMap<Buffer> buffers;   // by innermost frame: the last one that a forward allocated
};

// What the labels of a whole run say, where only a part of it is in memory.
struct KnownLabels {
  struct Late {
    std::uint32_t row = 0;  // of the record
    LateLabel label;
  };
  std::vector<Late> late;
  const LabelledPlaces* places = nullptr;
  bool is_of_start = false;  // places of the first steps: those that the record shows count too
};

// Gives every row of `labels` that a recorded label names its source, name and flags (kMeasured).
// The columns already have one row per allocation, all unknown; rows that no label names stay
// unknown and are inferred. A label names the allocation that was live at its address at its
// position in the events. Returns whether the recording has labels at all. `known`: see KnownRun.
bool take_labels(const Store& store, const DeviceRecord& record, const KnownLabels* known,
                 AllocationLabels& labels);

// Only for a recording with labels, after the rest was inferred. Memory allocated where labelled
// inputs were allocated is inputs too, and likewise for buffers that every forward reallocates.
// What is an activation or a temporary by definition, from the phases of its birth and its death,
// counts as measured.
void settle_by_labels(const Store& store, const DeviceRecord& record,
                      const std::vector<PhaseSpan>& spans, const KnownLabels* known,
                      AllocationLabels& labels);

// The places that the labels of a record show, once it is labelled.
LabelledPlaces labelled_places(const Store& store, const DeviceRecord& record,
                               const std::vector<PhaseSpan>& spans);

MemorySource source_of_label(LabelKind kind);
// Outputs that are fed in again are not program data: a KV cache, what a generator produced for its
// discriminator, features of a frozen model. A label that calls them inputs does not count.
bool is_made_by_model(CodeKind kind);

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
