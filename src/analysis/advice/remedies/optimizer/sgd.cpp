// sgd: no state at all.
#include "analysis/advice/remedies/list.h"
#include "analysis/advice/remedies/optimizer/optimizer_state.h"

namespace gpumemprof::remedies {
namespace {

void sgd_rewrite(const AdvisedRun&, const Change&, Rewrite& changed) {
  drop_step_temporaries(changed);
  drop_states(changed);
}

}  // namespace

RemedySpec sgd() {
  return {
      .name = "sgd",
      .title = "SGD without momentum",
      .cost = RemedyCost::changes_training,
      .how = "optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)",
      .how_trainer = "TrainingArguments(optim=\"sgd\")",
      .aspect = Aspect::optimizer,
      .needs = {.optimizer_steps = true, .parameters = true},
      .band = 0.01,
      .least = {.keeps_optimizer = false},
      .fit_cost = 120,
      .fit_order = 33,
      .rewrite = sgd_rewrite,
  };
}

}  // namespace gpumemprof::remedies
