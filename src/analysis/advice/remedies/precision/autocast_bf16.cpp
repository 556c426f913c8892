// autocast_bf16: matrix products run in bf16.
#include "analysis/advice/remedies/list.h"
#include "analysis/advice/remedies/precision/autocast.h"

namespace gpumemprof::remedies {

RemedySpec autocast_bf16() {
  return {
      .name = "autocast_bf16",
      .title = "autocast to bf16",
      .cost = RemedyCost::changes_training,
      .how =
          "with torch.autocast(\"cuda\", dtype=torch.bfloat16):\n"
          "    loss = loss_function(model(x), y)\n"
          "loss.backward()",
      .how_trainer = "TrainingArguments(bf16=True)",
      .aspect = Aspect::precision,
      .needs = {.stacks = true},
      .band = 0.06,
      .is_estimated = true,
      .least = {.step = 0.5},
      .fit_cost = 5,
      .only_rounds = true,
      .fit_order = 50,
      .is_verifiable = true,
      .obstacle = autocast_obstacle,
      .rewrite = [](const AdvisedRun&, const Change&, Rewrite& rewrite) { use_autocast(rewrite); },
  };
}

}  // namespace gpumemprof::remedies
