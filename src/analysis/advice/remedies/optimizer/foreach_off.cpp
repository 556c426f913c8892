// foreach_off: the step takes one parameter after the other instead of all at once.
#include "analysis/advice/remedies/list.h"
#include "analysis/advice/remedies/optimizer/optimizer_state.h"

namespace gpumemprof::remedies {
namespace {

void foreach_off_rewrite(const AdvisedRun&, const Change&, Rewrite& changed) {
  drop_step_temporaries(changed);
  add_step_temporaries(changed, has_second_moment(changed.facts) ? 2 : 1);
}

}  // namespace

RemedySpec foreach_off() {
  return {
      .name = "foreach_off",
      .title = "update one parameter at a time",
      .cost = RemedyCost::slower,
      .how =
          "for group in optimizer.param_groups:\n"
          "    group[\"foreach\"] = False",
      .aspect = Aspect::optimizer,
      .needs = {.optimizer_steps = true, .parameters = true},
      .band = 0.01,
      .least = {.keeps_optimizer = false},
      .fit_cost = 3,
      .is_verifiable = true,
      .obstacle = no_step_temporaries,
      .rewrite = foreach_off_rewrite,
  };
}

}  // namespace gpumemprof::remedies
