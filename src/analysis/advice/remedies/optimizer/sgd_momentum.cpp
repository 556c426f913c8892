// sgd_momentum: one buffer for each parameter.
#include "analysis/advice/remedies/list.h"
#include "analysis/advice/remedies/optimizer/optimizer_state.h"

namespace gpumemprof::remedies {
namespace {

void sgd_momentum_rewrite(const AdvisedRun&, const Change&, Rewrite& changed) {
  drop_step_temporaries(changed);
  keep_one_state(changed);
}

}  // namespace

RemedySpec sgd_momentum() {
  return {
      .name = "sgd_momentum",
      .title = "SGD with momentum",
      .cost = RemedyCost::changes_training,
      .how = "optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)",
      .aspect = Aspect::optimizer,
      .needs = {.optimizer_steps = true, .parameters = true},
      .band = 0.01,
      .least = {.keeps_optimizer = false},
      .fit_cost = 110,
      .rewrite = sgd_momentum_rewrite,
  };
}

}  // namespace gpumemprof::remedies
