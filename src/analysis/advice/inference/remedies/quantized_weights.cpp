// int8_weights, int4_weights: weights of linear layers are quantized.
#include <algorithm>

#include "analysis/advice/inference/remedies/inference_remedy.h"

namespace gpumemprof::inference_remedies {
namespace {

InferenceEffect quantize(const InferenceRun& run, double bits, const std::string& size) {
  const double weight_bytes = run.precision().weight_bytes();
  const double factor = bits / 8 / weight_bytes;
  constexpr double kScales = 1.07;  // one scale per 64 weights or per row
  InferenceEffect effect;
  effect.scale.weights = std::min(1.0, factor * kScales);
  effect.least.weights = std::min(1.0, factor);
  // Embeddings, norms and the last layer stay in 16 bits.
  constexpr double kLeft = 0.25;
  effect.most.weights = std::min(1.0, (1 - kLeft) * factor * kScales + kLeft * 2 / weight_bytes);
  effect.why = "Each weight takes " + size +
               "; embeddings, norms and the last layer stay as they are." +
               run.precision().caveat();
  if (!run.has_weights()) effect.obstacle = "No weights were recognized in this recording.";
  return effect;
}

}  // namespace

InferenceRemedySpec int8_weights() {
  return {
      .name = "int8_weights",
      .title = "weights quantized to 8 bits",
      .cost = RemedyCost::changes_training,
      .how =
          "from transformers import BitsAndBytesConfig\n"
          "quantization = BitsAndBytesConfig(load_in_8bit=True)\n"
          "model = Model.from_pretrained(name, quantization_config=quantization)",
      .changes_precision = true,
      .effect = [](const InferenceRun& run) { return quantize(run, 8, "one byte"); },
  };
}

InferenceRemedySpec int4_weights() {
  return {
      .name = "int4_weights",
      .title = "weights quantized to 4 bits",
      .cost = RemedyCost::changes_training,
      .how =
          "from transformers import BitsAndBytesConfig\n"
          "quantization = BitsAndBytesConfig(\n"
          "    load_in_4bit=True, bnb_4bit_compute_dtype=torch.bfloat16\n"
          ")\n"
          "model = Model.from_pretrained(name, quantization_config=quantization)",
      .changes_precision = true,
      .effect = [](const InferenceRun& run) { return quantize(run, 4, "half a byte"); },
  };
}

}  // namespace gpumemprof::inference_remedies
