// autocast_fp16: matrix products run in fp16; a scaler keeps small gradients from vanishing.
#include "analysis/advice/remedies/list.h"
#include "analysis/advice/remedies/precision/autocast.h"

namespace gpumemprof::remedies {

RemedySpec autocast_fp16() {
  return {
      .name = "autocast_fp16",
      .title = "autocast to fp16, with a gradient scaler",
      .cost = RemedyCost::changes_training,
      .how =
          "scaler = torch.amp.GradScaler()  # fp16 gradients would vanish\n"
          "with torch.autocast(\"cuda\", dtype=torch.float16):\n"
          "    loss = loss_function(model(x), y)\n"
          "scaler.scale(loss).backward()\n"
          "scaler.step(optimizer)\n"
          "scaler.update()",
      .how_trainer = "TrainingArguments(fp16=True)",
      .aspect = Aspect::precision,
      .needs = {.stacks = true},
      .band = 0.06,
      .is_estimated = true,
      .least = {.step = 0.5},
      .fit_cost = 6,
      .only_rounds = true,
      .is_verifiable = true,
      .obstacle = autocast_obstacle,
      .rewrite = [](const AdvisedRun&, const Change&, Rewrite& rewrite) { use_autocast(rewrite); },
  };
}

}  // namespace gpumemprof::remedies
