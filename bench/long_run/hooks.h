// Hooks: what the recorder's hooks on modules and optimizers say at every step: the names of
// parameters, gradients, optimizer state and inputs, and where the optimizer's step begins and
// ends. Order and frequency are those of gpumemprof/hooks.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "long_run/memory.h"
#include "long_run/model.h"

namespace gpumemprof::long_run {

// The first slot of each kind; a parameter has two tensors of optimizer state.
struct NamedSlots {
  Slot parameters = 0;
  Slot gradients = 0;
  Slot states = 0;
};

class Hooks {
 public:
  Hooks(Recorder& recorder, const Memory& memory, const Model& model, const NamedSlots& slots,
        bool is_on);

  // Only the first calls of the model are seen.
  void before_forward(Slot tokens, Slot targets);
  void before_step();
  void after_step();

 private:
  // A set of labels, defined again when an address changes.
  struct LabelSet {
    std::vector<Label> labels;
    std::optional<std::uint32_t> row;
  };

  [[nodiscard]] LabelSet named(LabelKind kind, std::span<const std::string_view> suffixes) const;
  // Its tensors have consecutive slots.
  void apply(LabelSet& set, Slot first);
  void mark(PhaseMark::Kind kind);

  Recorder* recorder_;
  const Memory* memory_;
  const Model* model_;
  NamedSlots slots_;
  bool is_on_;
  std::uint64_t forwards_ = 0;
  std::uint64_t steps_ = 0;
  LabelSet parameters_;
  LabelSet gradients_;
  LabelSet states_;
};

}  // namespace gpumemprof::long_run
