// static_cache: the cache is allocated once, at its full size.
#include "analysis/advice/inference/remedies/inference_remedy.h"

namespace gpumemprof::inference_remedies {
namespace {

InferenceEffect static_cache_effect(const InferenceRun& run) {
  InferenceEffect effect;
  effect.scale.is_cache_constant = effect.least.is_cache_settled = true;
  effect.most.is_cache_constant = true;
  effect.why =
      "A cache that grows by torch.cat is live twice while it is copied, and leaves gaps; a static "
      "cache is allocated in full at the start.";
  if (!run.has_cache()) {
    effect.obstacle = kNoCache;
  } else if (!run.is_cache_copied()) {
    effect.obstacle = "The cache already has a fixed size: it does not grow by copying.";
  }
  return effect;
}

}  // namespace

InferenceRemedySpec static_cache() {
  return {
      .name = "static_cache",
      .title = "a KV cache of fixed size, allocated once (StaticCache)",
      .how = "model.generate(**inputs, cache_implementation=\"static\", max_new_tokens=new_tokens)",
      .effect = static_cache_effect,
  };
}

}  // namespace gpumemprof::inference_remedies
