// What the program itself says about its memory while it is recorded: which storages its modules
// and optimizers own, what its modules are called, and when its optimizers step.
//
// A position is an event row of one device: what is said there was true after all events before
// that row and before the row itself. A label names a storage by its address; it applies to the
// allocation that was live there at that position, for its whole lifetime.
#pragma once

#include <cstdint>
#include <vector>

#include "event/event.h"

namespace gpumemprof {

enum class LabelKind : std::uint8_t { parameter, buffer, gradient, optimizer_state, input };
inline constexpr std::size_t kLabelKindCount = 5;

// If several labels name one allocation, the last one of the highest rank counts: what a module
// owns is a parameter even if it is fed to another as input, and stays one if a gradient is
// computed into it.
constexpr int label_rank(LabelKind kind) {
  switch (kind) {
    case LabelKind::parameter:
      return 4;
    case LabelKind::buffer:
      return 3;
    case LabelKind::gradient:
      return 2;
    case LabelKind::optimizer_state:
      return 1;
    case LabelKind::input:
      break;
  }
  return 0;
}

struct Label {
  LabelKind kind = LabelKind::parameter;
  std::uint64_t address = 0;
  StringId name;  // "h.3.mlp.c_fc.weight"; plus ".grad" for a gradient, " exp_avg" for state
  constexpr bool operator==(const Label&) const = default;
};

// Labels are reported in sets, because most steps repeat those of the step before. No set is
// larger.
inline constexpr std::size_t kMaxLabelsPerSet = std::size_t{1} << 16;

// A set of labels applies here.
struct Labelling {
  DeviceIndex device = 0;
  std::uint32_t set = 0;  // row in the recording's label sets
  std::uint32_t before_event = 0;
  constexpr bool operator==(const Labelling&) const = default;
};

// Where one of the program's phases begins or ends, as its hooks reported it.
struct PhaseMark {
  enum class Kind : std::uint8_t { optimizer_start, optimizer_end, step_start };
  DeviceIndex device = 0;
  Kind kind = Kind::optimizer_start;
  std::uint32_t number = 0;  // of the optimizer, counted from 0; for step_start, of the step
  std::uint32_t before_event = 0;
  constexpr bool operator==(const PhaseMark&) const = default;
};
inline constexpr std::size_t kPhaseMarkKindCount = 3;

// A module of the program: its path from its root, and the function that is its forward. The last
// label for a number wins; a module that nobody named has only a number and a class.
struct ModuleLabel {
  StringId path;  // "transformer.h.3.mlp"; empty for a root; none: not named
  StringId class_name;
  StringId forward_file;
  std::uint32_t forward_line = 0;  // where the function begins
  std::uint32_t forward_last_line = 0;
  std::uint32_t number = kNoModule;  // used by events to refer to it; none if it was not called
  bool is_root = false;              // no other module contains it
  constexpr auto operator<=>(const ModuleLabel&) const = default;
};

}  // namespace gpumemprof
