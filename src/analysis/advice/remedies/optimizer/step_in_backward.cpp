// step_in_backward: each parameter steps as soon as backward has computed its gradient, which is
// then freed.
#include "analysis/advice/remedies/list.h"
#include "analysis/advice/remedies/optimizer/optimizer_state.h"

namespace gpumemprof::remedies {
namespace {

void step_in_backward_rewrite(const AdvisedRun&, const Change&, Rewrite& changed) {
  drop_step_temporaries(changed);
  const bool has_two_states = has_second_moment(changed.facts);
  for (const ForwardPass& pass : changed.facts.passes()) {
    for (const std::uint32_t row : pass.backward) {
      if (changed.facts.source(row) != MemorySource::gradients) continue;
      TimelineRow* gradient = changed.find(row);
      if (gradient == nullptr || !gradient->is_there()) continue;
      const std::uint32_t event = event_of(gradient->birth);
      const std::uint64_t bytes = gradient->size_bytes;
      gradient->die_at(after_event(event, 16));
      for (std::uint64_t index = 0; has_two_states && index < 2; ++index)
        changed.timeline.insert(after_event(event, index), after_event(event, 8), bytes,
                                MemorySource::temporaries);
    }
  }
}

}  // namespace

RemedySpec step_in_backward() {
  return {
      .name = "step_in_backward",
      .title = "update each parameter inside backward, keep no gradients",
      .cost = RemedyCost::slower,
      .how =
          "# Optimizer: the one that the program uses now, with its settings\n"
          "for p in model.parameters():\n"
          "    optimizers[p] = Optimizer([p], foreach=False)\n"
          "    def step(p):\n"
          "        optimizers[p].step(); optimizers[p].zero_grad()\n"
          "    p.register_post_accumulate_grad_hook(step)",
      .aspect = Aspect::optimizer,
      .needs = {.optimizer_steps = true, .parameters = true},
      .band = 0.03,
      .least = {.step = 0},
      .fit_cost = 12,
      .rewrite = step_in_backward_rewrite,
  };
}

}  // namespace gpumemprof::remedies
