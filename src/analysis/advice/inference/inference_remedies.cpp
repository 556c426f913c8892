#include <algorithm>

#include "analysis/advice/inference/inference_run.h"

namespace gpumemprof {
namespace {

class RemedyList {
 public:
  explicit RemedyList(const InferenceRun& run) : run_(run) {}

  [[nodiscard]] std::vector<InferenceRemedy> all() const {
    return {half_precision(),  int8_weights(),    int4_weights(), smaller_batch(),
            shorter_prompts(), quantized_cache(), static_cache(), paged_attention()};
  }

 private:
  // Half of what is in full precision; the rest stays.
  [[nodiscard]] double halved() const { return 1 - run_.precision().full_share() / 2; }
  // Current bytes per weight, on average.
  [[nodiscard]] double weight_bytes() const { return 2 + 2 * run_.precision().full_share(); }
  // The least a weight may take now: without a word on the precision, it may be half already.
  [[nodiscard]] double least_weight_bytes() const {
    return run_.precision().is_known() ? weight_bytes() : 2;
  }

  [[nodiscard]] std::string if_full() const {
    return run_.precision().is_known()
               ? ""
               : " If the weights are in fp32, which the recording does not say.";
  }

  [[nodiscard]] InferenceRemedy half_precision() const {
    InferenceRemedy remedy;
    remedy.name = "half_precision";
    remedy.title = "weights and activations in 16 bits";
    remedy.cost = RemedyCost::changes_training;
    remedy.changes_precision = true;
    const double half = halved();
    remedy.scale = remedy.least = remedy.most = {half, half, half, 1, false, false};
    remedy.most.activations = (1 + half) / 2;            // softmax and norms compute in fp32
    if (!run_.precision().is_known()) remedy.most = {};  // it may be in half precision already
    remedy.why = "Weights, cache and activations take two bytes each instead of four." + if_full();
    remedy.how =
        "model = Model.from_pretrained(name, dtype=torch.bfloat16)\n"
        "# or, for a model that is there already:\n"
        "model = model.to(torch.bfloat16)";
    if (run_.precision().is_known() && run_.precision().full_share() < 0.05)
      remedy.obstacle = "The weights are in half precision already.";
    return remedy;
  }

  [[nodiscard]] InferenceRemedy quantized_weights(double bits) const {
    InferenceRemedy remedy;
    remedy.cost = RemedyCost::changes_training;
    remedy.changes_precision = true;
    const double factor = bits / 8 / weight_bytes();
    constexpr double kScales = 1.07;  // one scale per 64 weights or per row
    remedy.scale.weights = std::min(1.0, factor * kScales);
    remedy.least.weights = std::min(1.0, factor);
    // Embeddings, norms and the last layer stay in 16 bits.
    constexpr double kLeft = 0.25;
    remedy.most.weights =
        std::min(1.0, (1 - kLeft) * factor * kScales + kLeft * 2 / weight_bytes());
    if (!run_.has_weights()) remedy.obstacle = "No weights were recognised in this recording.";
    return remedy;
  }

  [[nodiscard]] InferenceRemedy int8_weights() const {
    InferenceRemedy remedy = quantized_weights(8);
    remedy.name = "int8_weights";
    remedy.title = "weights quantised to 8 bits";
    remedy.why = "A weight takes one byte; embeddings, norms and the last layer stay as they are." +
                 if_full();
    remedy.how =
        "from transformers import BitsAndBytesConfig\n"
        "quantization = BitsAndBytesConfig(load_in_8bit=True)\n"
        "model = Model.from_pretrained(name, quantization_config=quantization)";
    return remedy;
  }

  [[nodiscard]] InferenceRemedy int4_weights() const {
    InferenceRemedy remedy = quantized_weights(4);
    remedy.name = "int4_weights";
    remedy.title = "weights quantised to 4 bits";
    remedy.why =
        "A weight takes half a byte; embeddings, norms and the last layer stay as they are." +
        if_full();
    remedy.how =
        "from transformers import BitsAndBytesConfig\n"
        "quantization = BitsAndBytesConfig(\n"
        "    load_in_4bit=True, bnb_4bit_compute_dtype=torch.bfloat16\n"
        ")\n"
        "model = Model.from_pretrained(name, quantization_config=quantization)";
    return remedy;
  }

  [[nodiscard]] InferenceRemedy smaller_batch() const {
    InferenceRemedy remedy;
    remedy.name = "smaller_batch";
    remedy.title = "half as many samples at once";
    remedy.cost = RemedyCost::slower;
    remedy.batch_factor = 0.5;
    remedy.scale = remedy.least = remedy.most = {1, 0.5, 0.5, 0.5, false, false};
    remedy.most = {1, 0.5, 0.6, 1, false, false};
    remedy.why = "Cache, activations and inputs grow with the batch; the weights do not.";
    remedy.how = "for half in batch.chunk(2):\n    outputs.append(model(half))";
    return remedy;
  }

  [[nodiscard]] InferenceRemedy shorter_prompts() const {
    InferenceRemedy remedy;
    remedy.name = "shorter_prompts";
    remedy.title = "half as many tokens or positions at once";
    remedy.cost = RemedyCost::changes_training;
    remedy.scale = remedy.most = {1, 0.5, 0.5, 0.5, false, false};
    remedy.least = {1, 0.5, 0.25, 0.5, false, false};  // attention scores are quadratic
    remedy.most.activations = 0.6;
    remedy.why = "Cache and activations grow with the length, attention's scores with its square.";
    remedy.how =
        "inputs = tokenizer(texts, truncation=True, max_length=length // 2, return_tensors=\"pt\")";
    if (!run_.has_cache())
      remedy.obstacle = "No cache of keys and values was recognised, so these may be no sequences.";
    return remedy;
  }

  [[nodiscard]] InferenceRemedy quantized_cache() const {
    InferenceRemedy remedy;
    remedy.name = "quantized_kv_cache";
    remedy.title = "the cache of keys and values in 4 bits";
    remedy.cost = RemedyCost::changes_training;
    remedy.changes_precision = true;
    remedy.scale.cache = 0.5 * 1.25 / weight_bytes();
    remedy.least.cache = 0.5 / weight_bytes();
    remedy.most.cache = 2 * 0.5 * 1.25 / least_weight_bytes();
    remedy.scale.is_cache_settled = remedy.least.is_cache_settled = true;
    remedy.why =
        "Keys and values take half a byte each; the last 128 tokens stay in full." + if_full();
    remedy.how =
        "model.generate(**inputs, cache_implementation=\"quantized\",\n"
        "               cache_config={\"backend\": \"quanto\", \"nbits\": 4})";
    if (!run_.has_cache()) remedy.obstacle = no_cache();
    return remedy;
  }

  [[nodiscard]] InferenceRemedy static_cache() const {
    InferenceRemedy remedy;
    remedy.name = "static_cache";
    remedy.title = "a cache of fixed size, allocated once (StaticCache)";
    remedy.scale.is_cache_constant = remedy.least.is_cache_settled = true;
    remedy.most.is_cache_constant = true;
    remedy.why =
        "Growing by torch.cat holds the old and the new cache at once and leaves gaps; a static "
        "one is there in full from the start.";
    remedy.how =
        "model.generate(**inputs, cache_implementation=\"static\", max_new_tokens=new_tokens)";
    if (!run_.has_cache()) {
      remedy.obstacle = no_cache();
    } else if (!run_.is_cache_copied()) {
      remedy.obstacle = "The cache does not grow by copies: it is of fixed size already.";
    }
    return remedy;
  }

  [[nodiscard]] InferenceRemedy paged_attention() const {
    InferenceRemedy remedy;
    remedy.name = "paged_attention";
    remedy.title = "a cache in pages (vLLM, or transformers' continuous batching)";
    remedy.scale.is_cache_settled = remedy.least.is_cache_settled = true;
    remedy.why = "The cache grows page by page: no copies, and only the pages that are in use.";
    remedy.how =
        "from vllm import LLM\n"
        "llm = LLM(name, gpu_memory_utilization=0.9)\n"
        "outputs = llm.generate(prompts)";
    if (!run_.has_cache()) remedy.obstacle = no_cache();
    return remedy;
  }

  static std::string no_cache() {
    return "No cache of keys and values was recognised in this recording.";
  }

  const InferenceRun& run_;
};

}  // namespace

std::vector<InferenceRemedy> inference_remedies(const InferenceRun& run) {
  return RemedyList(run).all();
}

}  // namespace gpumemprof
