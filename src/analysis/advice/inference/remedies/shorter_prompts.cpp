// shorter_prompts: half as many tokens at once.
#include "analysis/advice/inference/remedies/inference_remedy.h"

namespace gpumemprof::inference_remedies {
namespace {

InferenceEffect shorter_prompts_effect(const InferenceRun& run) {
  InferenceEffect effect;
  effect.scale = {1, 0.5, 0.5, 0.5, false, false};
  effect.least = {1, 0.5, 0.25, 0.5, false, false};  // attention scores are quadratic
  effect.most = {1, 0.5, 0.6, 0.5, false, false};
  effect.why =
      "The cache and activations grow with the sequence length, attention scores with its square.";
  if (!run.has_cache())
    effect.obstacle = "No KV cache was recognized, so the inputs may not be sequences.";
  return effect;
}

}  // namespace

InferenceRemedySpec shorter_prompts() {
  return {
      .name = "shorter_prompts",
      .title = "half as many tokens or positions at once",
      .cost = RemedyCost::changes_training,
      .how =
          "inputs = tokenizer(texts, truncation=True, max_length=length // 2, "
          "return_tensors=\"pt\")",
      .effect = shorter_prompts_effect,
  };
}

}  // namespace gpumemprof::inference_remedies
