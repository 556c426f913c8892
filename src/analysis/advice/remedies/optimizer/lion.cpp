// lion: one buffer for each parameter, and two temporaries while a parameter steps.
#include "analysis/advice/remedies/list.h"
#include "analysis/advice/remedies/optimizer/optimizer_state.h"

namespace gpumemprof::remedies {
namespace {

void lion_rewrite(const AdvisedRun&, const Change&, Rewrite& changed) {
  drop_step_temporaries(changed);
  keep_one_state(changed);
  add_step_temporaries(changed, 2);
}

}  // namespace

RemedySpec lion() {
  return {
      .name = "lion",
      .title = "Lion: one state tensor for each parameter",
      .cost = RemedyCost::changes_training,
      .how =
          "from lion_pytorch import Lion\n"
          "optimizer = Lion(model.parameters(), lr=1e-4)",
      .how_trainer = "TrainingArguments(optim=\"lion_32bit\")",
      .aspect = Aspect::optimizer,
      .needs = {.optimizer_steps = true, .parameters = true},
      .band = 0.01,
      .least = {.keeps_optimizer = false},
      .fit_cost = 90,
      .rewrite = lion_rewrite,
  };
}

}  // namespace gpumemprof::remedies
