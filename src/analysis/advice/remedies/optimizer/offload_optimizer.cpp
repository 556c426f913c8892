// offload_optimizer: the optimizer's state and its step are on the host.
#include "analysis/advice/remedies/list.h"
#include "analysis/advice/remedies/optimizer/optimizer_state.h"
#include "analysis/advice/remedies/transfer.h"

namespace gpumemprof::remedies {
namespace {

void offload_optimizer_rewrite(const AdvisedRun&, const Change&, Rewrite& changed) {
  drop_states(changed);
  drop_step_temporaries(changed);
}

// Gradients to the host, weights back; the time of the host's step comes on top and is not known.
std::optional<Slowdown> offload_optimizer_slowdown(const AdvisedRun& run, const Change&) {
  return transfer_slowdown(run, 2 * run.facts().parameter_bytes());
}

}  // namespace

RemedySpec offload_optimizer() {
  return {
      .name = "offload_optimizer",
      .title = "keep the optimizer's state in host memory",
      .cost = RemedyCost::slower,
      .how =
          "# DeepSpeed's configuration:\n"
          "\"zero_optimization\": {\"stage\": 2, \"offload_optimizer\": {\"device\": \"cpu\"}}",
      .how_trainer = "TrainingArguments(deepspeed=\"zero2_offload.json\")",
      .aspect = Aspect::optimizer,
      .needs = {.optimizer_steps = true, .parameters = true},
      .band = 0.03,
      .is_estimated = true,
      .least = {.keeps_optimizer = false},
      .fit_cost = 25,
      .fit_order = 34,
      .rewrite = offload_optimizer_rewrite,
      .slowdown = offload_optimizer_slowdown,
  };
}

}  // namespace gpumemprof::remedies
