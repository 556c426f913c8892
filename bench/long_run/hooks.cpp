#include "long_run/hooks.h"

#include <array>
#include <string>

namespace gpumemprof::long_run {
namespace {

constexpr std::uint64_t kForwardsSeen = 2;

// The steps at which everything is looked at: the first, then powers of two.
bool is_seldom(std::uint64_t step) { return step < 3 || (step >= 32 && (step & (step - 1)) == 0); }

}  // namespace

Hooks::Hooks(Recorder& recorder, const Memory& memory, const Model& model, const NamedSlots& slots,
             bool is_on)
    : recorder_(&recorder), memory_(&memory), model_(&model), slots_(slots), is_on_(is_on) {
  model.describe(recorder.writer(), is_on);
  if (!is_on) return;
  constexpr std::array<std::string_view, 1> kParameter = {""};
  constexpr std::array<std::string_view, 1> kGradient = {".grad"};
  constexpr std::array<std::string_view, 2> kState = {" exp_avg", " exp_avg_sq"};
  parameters_ = named(LabelKind::parameter, kParameter);
  gradients_ = named(LabelKind::gradient, kGradient);
  states_ = named(LabelKind::optimizer_state, kState);
}

Hooks::LabelSet Hooks::named(LabelKind kind, std::span<const std::string_view> suffixes) const {
  LabelSet set;
  for (const Parameter& parameter : model_->parameters()) {
    for (const std::string_view suffix : suffixes) {
      const StringId name = recorder_->writer().add_string(parameter.name + std::string(suffix));
      set.labels.push_back({kind, 0, name});
    }
  }
  return set;
}

void Hooks::apply(LabelSet& set, Slot first) {
  bool has_moved = !set.row;
  Slot slot = first;
  for (Label& label : set.labels) {
    const std::uint64_t address = memory_->address(slot++);
    has_moved |= address != label.address;
    label.address = address;
  }
  if (has_moved) set.row = recorder_->writer().add_label_set(set.labels);
  recorder_->writer().add_labelling({0, *set.row, recorder_->next_row()});
}

void Hooks::mark(PhaseMark::Kind kind) {
  recorder_->writer().add_phase_mark({0, kind, 0, recorder_->next_row()});
}

void Hooks::before_forward(Slot tokens, Slot targets) {
  if (!is_on_ || forwards_ == kForwardsSeen) return;
  if (forwards_++ == 0) apply(parameters_, slots_.parameters);
  TraceWriter& writer = recorder_->writer();
  const std::array<Label, 2> inputs = {
      Label{LabelKind::input, memory_->address(tokens), writer.add_string("input.0")},
      Label{LabelKind::input, memory_->address(targets), writer.add_string("input.1")}};
  writer.add_labelling({0, writer.add_label_set(inputs), recorder_->next_row()});
}

void Hooks::before_step() {
  if (!is_on_) return;
  ++steps_;
  if (is_seldom(steps_)) {
    apply(parameters_, slots_.parameters);
    apply(gradients_, slots_.gradients);
  }
  mark(PhaseMark::Kind::optimizer_start);
}

void Hooks::after_step() {
  if (!is_on_) return;
  mark(PhaseMark::Kind::optimizer_end);
  if (is_seldom(steps_)) {
    apply(states_, slots_.states);
  } else {
    apply(gradients_, slots_.gradients);
  }
}

}  // namespace gpumemprof::long_run
