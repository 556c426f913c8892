// quantized_kv_cache: keys and values take half a byte each.
#include "analysis/advice/inference/remedies/inference_remedy.h"

namespace gpumemprof::inference_remedies {
namespace {

InferenceEffect quantized_kv_cache_effect(const InferenceRun& run) {
  const Precision& precision = run.precision();
  InferenceEffect effect;
  effect.scale.cache = 0.5 * 1.25 / precision.weight_bytes();
  effect.least.cache = 0.5 / precision.weight_bytes();
  effect.most.cache = 2 * 0.5 * 1.25 / precision.least_weight_bytes();
  effect.scale.is_cache_settled = effect.least.is_cache_settled = true;
  effect.why =
      "Cached keys and values take half a byte each; the last 128 tokens stay in full precision." +
      precision.caveat();
  if (!run.has_cache()) effect.obstacle = kNoCache;
  return effect;
}

}  // namespace

InferenceRemedySpec quantized_kv_cache() {
  return {
      .name = "quantized_kv_cache",
      .title = "a KV cache of 4 bits per value",
      .cost = RemedyCost::changes_training,
      .how =
          "model.generate(**inputs, cache_implementation=\"quantized\",\n"
          "               cache_config={\"backend\": \"quanto\", \"nbits\": 4})",
      .changes_precision = true,
      .effect = quantized_kv_cache_effect,
  };
}

}  // namespace gpumemprof::inference_remedies
