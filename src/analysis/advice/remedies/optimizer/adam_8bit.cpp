// adam_8bit: two moments of one byte per parameter, and a scale for each block of them.
#include "analysis/advice/remedies/list.h"
#include "analysis/advice/remedies/optimizer/optimizer_state.h"

namespace gpumemprof::remedies {
namespace {

void adam_8bit_rewrite(const AdvisedRun&, const Change&, Rewrite& changed) {
  drop_step_temporaries(changed);
  replace_states(changed, sizes_of(eight_bit_states(changed.facts)));
}

}  // namespace

RemedySpec adam_8bit() {
  return {
      .name = "adam_8bit",
      .title = "Adam with 8-bit state",
      .cost = RemedyCost::changes_training,
      .how =
          "import bitsandbytes as bnb\n"
          "optimizer = bnb.optim.AdamW8bit(model.parameters(), lr=1e-4)",
      .how_trainer = "TrainingArguments(optim=\"adamw_bnb_8bit\")",
      .aspect = Aspect::optimizer,
      .needs = {.optimizer_steps = true, .parameters = true},
      .band = 0.02,
      .is_estimated = true,
      .least = {.keeps_optimizer = false},
      .fit_cost = 50,
      .fit_order = 31,
      .rewrite = adam_8bit_rewrite,
  };
}

}  // namespace gpumemprof::remedies
