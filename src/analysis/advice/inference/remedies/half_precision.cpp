// half_precision: what is in fp32 takes two bytes instead of four.
#include "analysis/advice/inference/remedies/inference_remedy.h"

namespace gpumemprof::inference_remedies {
namespace {

InferenceEffect half_precision_effect(const InferenceRun& run) {
  const Precision& precision = run.precision();
  // Half of what is in full precision; the rest stays.
  const double half = 1 - precision.full_share() / 2;
  InferenceEffect effect;
  effect.scale = effect.least = effect.most = {half, half, half, 1, false, false};
  effect.most.activations = (1 + half) / 2;     // softmax and norms compute in fp32
  if (!precision.is_known()) effect.most = {};  // it may be in half precision already
  effect.why = "Weights, the cache and activations take two bytes per value instead of four." +
               precision.caveat();
  if (precision.is_known() && precision.full_share() < 0.05)
    effect.obstacle = "The weights are already in half precision.";
  return effect;
}

}  // namespace

InferenceRemedySpec half_precision() {
  return {
      .name = "half_precision",
      .title = "weights and activations in 16 bits",
      .cost = RemedyCost::changes_training,
      .how =
          "model = Model.from_pretrained(name, dtype=torch.bfloat16)\n"
          "# or, for a model that exists already:\n"
          "model = model.to(torch.bfloat16)",
      .changes_precision = true,
      .effect = half_precision_effect,
  };
}

}  // namespace gpumemprof::inference_remedies
