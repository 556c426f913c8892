// InferenceRemedySpec: everything that is known about one remedy for inference.
//
// Each remedy is one function that returns its spec, in a file of this folder (remedies that differ
// only in a number share a file), and one line in the list below.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "analysis/advice/advice.h"
#include "analysis/advice/inference/inference_run.h"

// One line for each remedy. The order decides between equal savings.
#define GPUMEMPROF_INFERENCE_REMEDIES(REMEDY) \
  REMEDY(half_precision)                      \
  REMEDY(int8_weights)                        \
  REMEDY(int4_weights)                        \
  REMEDY(smaller_batch)                       \
  REMEDY(shorter_prompts)                     \
  REMEDY(quantized_kv_cache)                  \
  REMEDY(static_cache)                        \
  REMEDY(paged_attention)

namespace gpumemprof {

// What a remedy would do to one run.
struct InferenceEffect {
  Scale scale;
  Scale least;  // the band's lower end
  Scale most;   // and its upper end
  std::string why;
  std::string obstacle;  // a sentence if it does not apply
};

struct InferenceRemedySpec {
  std::string_view name = {};
  std::string_view title = {};
  RemedyCost cost = RemedyCost::free;
  std::string_view how = {};
  bool changes_precision = false;
  double batch_factor = 1;  // samples at once, relative to those recorded
  InferenceEffect (*effect)(const InferenceRun&) = nullptr;
};

// A remedy, or several combined, and the effect on one run.
struct InferenceRemedy : InferenceEffect {
  std::string name;
  std::string title;
  std::string how;
  RemedyCost cost = RemedyCost::free;
  bool changes_precision = false;
  double batch_factor = 1;
};

namespace inference_remedies {
#define GPUMEMPROF_DECLARE_REMEDY(name) InferenceRemedySpec name();
GPUMEMPROF_INFERENCE_REMEDIES(GPUMEMPROF_DECLARE_REMEDY)
#undef GPUMEMPROF_DECLARE_REMEDY

inline constexpr std::string_view kNoCache = "No KV cache was recognized in this recording.";
}  // namespace inference_remedies

const std::vector<InferenceRemedySpec>& all_inference_remedies();

// All of them for one run, whether they apply or not.
std::vector<InferenceRemedy> study_inference_remedies(const InferenceRun& run);

}  // namespace gpumemprof
