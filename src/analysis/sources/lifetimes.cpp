#include "analysis/sources/lifetimes.h"

namespace gpumemprof {

Lifetimes::Lifetimes(const Store& store, const DeviceRecord& record,
                     const std::vector<PhaseSpan>& spans)
    : store_(store),
      events_(record.events),
      rows_(record.allocations),
      spans_(spans, record.events.size()),
      stacks_(find_event_stacks(record)),
      kinds_of_stacks_(code_kinds(store)) {
  look_at_events();
  if (zeroings_.empty()) look_at_annotations(record.device);
  look_at_spans();
}

void Lifetimes::look_at_events() {
  for (std::uint32_t event = 0; event < events_.size(); ++event) {
    const Action action = events_.action[event];
    if (action == Action::oom) ooms_.push_back(event);
    const StackId stack = events_.stack[event];
    if (action == Action::free_requested && stacks_.frees && !stack.is_none() &&
        kinds_of_stacks_[stack.index] == CodeKind::zero_grad)
      note_zeroing(event);
    if (action != Action::alloc) continue;
    is_zeroing_ = false;
    if (!stacks_.requests) continue;
    const CodeKind kind = stack.is_none() ? CodeKind::backward : kinds_of_stacks_[stack.index];
    note_recompute(event, kind);
    note_forward(event, kind);
  }
}

void Lifetimes::look_at_spans() {
  next_step_.resize(spans_.count(), spans_.count());
  for (std::size_t run = spans_.count(); run-- > 1;) {
    next_step_[run - 1] = spans_.phase(run) == Phase::optimizer_step ? run : next_step_[run];
  }
  for (std::size_t run = 0; run < spans_.count(); ++run) {
    if (spans_.phase(run) != Phase::other) {
      has_phases_ = true;
      end_of_work_ = spans_.end(run);
    }
    if (spans_.phase(run) == Phase::backward)
      first_backward_ = std::min(first_backward_, spans_.first(run));
  }
}

// Frees of one zero_grad(): nothing is allocated between them.
void Lifetimes::note_zeroing(std::uint32_t event) {
  if (!is_zeroing_) zeroings_.push_back({event, event});
  zeroings_.back().last = event;
  is_zeroing_ = true;
}

// Forward code, until user code allocates in between.
void Lifetimes::note_forward(std::uint32_t event, CodeKind kind) {
  if (kind == CodeKind::forward) {
    if (!is_in_forward_) forwards_.push_back({event, event});
    forwards_.back().last = event;
  }
  is_in_forward_ = kind == CodeKind::forward;
}
// Forward rerun by backward, until backward does work of its own in between.
void Lifetimes::note_recompute(std::uint32_t event, CodeKind kind) {
  if (kind == CodeKind::recompute) {
    if (!is_recomputing_) recomputes_.push_back({event, event});
    recomputes_.back().last = event;
  }
  is_recomputing_ = kind == CodeKind::recompute;
}

void Lifetimes::look_at_annotations(DeviceIndex device) {
  const auto& times = events_.time_ns;
  const auto event_at = [&](std::int64_t time_ns) {
    return static_cast<std::uint32_t>(std::lower_bound(times.begin(), times.end(), time_ns) -
                                      times.begin());
  };
  for (const Annotation& annotation : store_.annotations()) {
    if (annotation.device != device || annotation.time_ns == kUnknownTime) continue;
    if (!store_.text(annotation.name).starts_with("Optimizer.zero_grad#")) continue;
    const std::uint32_t event = event_at(annotation.time_ns);
    if (annotation.stage == Annotation::Stage::start) {
      zeroings_.push_back({event, event});
    } else if (!zeroings_.empty() && event > 0) {
      zeroings_.back().last = event - 1;
    }
  }
}

}  // namespace gpumemprof
