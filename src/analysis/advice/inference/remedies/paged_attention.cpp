// paged_attention: the cache grows page by page instead of by copying.
#include "analysis/advice/inference/remedies/inference_remedy.h"

namespace gpumemprof::inference_remedies {
namespace {

InferenceEffect paged_attention_effect(const InferenceRun& run) {
  InferenceEffect effect;
  effect.scale.is_cache_settled = effect.least.is_cache_settled = true;
  effect.why =
      "The cache grows page by page: nothing is copied, and only pages in use take memory.";
  if (!run.has_cache()) effect.obstacle = kNoCache;
  return effect;
}

}  // namespace

InferenceRemedySpec paged_attention() {
  return {
      .name = "paged_attention",
      .title = "a paged KV cache (vLLM, or transformers' continuous batching)",
      .how =
          "from vllm import LLM\n"
          "llm = LLM(name, gpu_memory_utilization=0.9)\n"
          "outputs = llm.generate(prompts)",
      .effect = paged_attention_effect,
  };
}

}  // namespace gpumemprof::inference_remedies
