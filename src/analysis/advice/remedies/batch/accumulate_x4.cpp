// accumulate_x4: gradients are summed over four batches of the recorded size before each step.
#include "analysis/advice/remedies/batch/batch_scaling.h"
#include "analysis/advice/remedies/list.h"

namespace gpumemprof::remedies {

RemedySpec accumulate_x4() {
  return {
      .name = "accumulate_x4",
      .title = "sum gradients over 4 batches of the recorded size",
      .cost = RemedyCost::changes_training,
      .how =
          "for number, (x, y) in enumerate(loader):\n"
          "    (loss_function(model(x), y) / 4).backward()\n"
          "    if number % 4 == 3:\n"
          "        optimizer.step(); optimizer.zero_grad()",
      .how_trainer = "TrainingArguments(gradient_accumulation_steps=4)",
      .aspect = Aspect::batch,
      .band = 0.01,
      .fit_cost = 45,
      .rewrite = [](const AdvisedRun&, const Change&,
                    Rewrite& rewrite) { accumulate_gradients(rewrite); },
  };
}

}  // namespace gpumemprof::remedies
