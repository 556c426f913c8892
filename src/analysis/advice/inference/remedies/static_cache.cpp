// static_cache: the cache is allocated once, at its full size.
#include "analysis/advice/inference/remedies/inference_remedy.h"

namespace gpumemprof::inference_remedies {
namespace {

InferenceEffect static_cache_effect(const InferenceRun& run) {
  InferenceEffect effect;
  effect.scale.is_cache_constant = effect.least.is_cache_settled = true;
  effect.most.is_cache_constant = true;
  effect.why =
      "Growing by torch.cat holds the old and the new cache at once and leaves gaps; a static one "
      "is allocated in full at the start.";
  if (!run.has_cache()) {
    effect.obstacle = kNoCache;
  } else if (!run.is_cache_copied()) {
    effect.obstacle = "The cache does not grow by copies: it has a fixed size already.";
  }
  return effect;
}

}  // namespace

InferenceRemedySpec static_cache() {
  return {
      .name = "static_cache",
      .title = "a cache of fixed size, allocated once (StaticCache)",
      .how = "model.generate(**inputs, cache_implementation=\"static\", max_new_tokens=new_tokens)",
      .effect = static_cache_effect,
  };
}

}  // namespace gpumemprof::inference_remedies
