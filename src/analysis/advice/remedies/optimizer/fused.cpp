// fused: the step runs in one kernel and allocates nothing.
#include "analysis/advice/remedies/list.h"
#include "analysis/advice/remedies/optimizer/optimizer_state.h"

namespace gpumemprof::remedies {
namespace {

void fused_rewrite(const AdvisedRun&, const Change&, Rewrite& changed) {
  drop_step_temporaries(changed);
}

}  // namespace

RemedySpec fused() {
  return {
      .name = "fused",
      .title = "update all parameters in a fused kernel",
      .cost = RemedyCost::free,
      .how =
          "# Optimizer: the one that the program uses now, with its settings\n"
          "optimizer = Optimizer(model.parameters(), fused=True)",
      .how_trainer = "TrainingArguments(optim=\"adamw_torch_fused\")",
      .aspect = Aspect::optimizer,
      .needs = {.optimizer_steps = true, .parameters = true},
      .band = 0.01,
      .least = {.keeps_optimizer = false},
      .fit_cost = 0.2,
      .fit_order = 30,
      .is_verifiable = true,
      .obstacle = no_step_temporaries,
      .rewrite = fused_rewrite,
  };
}

}  // namespace gpumemprof::remedies
