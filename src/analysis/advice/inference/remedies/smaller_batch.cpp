// smaller_batch: half as many samples at once.
#include "analysis/advice/inference/remedies/inference_remedy.h"

namespace gpumemprof::inference_remedies {

InferenceRemedySpec smaller_batch() {
  return {
      .name = "smaller_batch",
      .title = "half as many samples at once",
      .cost = RemedyCost::slower,
      .how = "for half in batch.chunk(2):\n    outputs.append(model(half))",
      .batch_factor = 0.5,
      .effect =
          [](const InferenceRun&) {
            InferenceEffect effect;
            effect.scale = effect.least = {1, 0.5, 0.5, 0.5, false, false};
            effect.most = {1, 0.5, 0.6, 1, false, false};
            effect.why =
                "The cache, activations and inputs grow with the batch; the weights do not.";
            return effect;
          },
  };
}

}  // namespace gpumemprof::inference_remedies
