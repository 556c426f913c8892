#include "analysis/advice/inference/remedies/inference_remedy.h"

namespace gpumemprof {

const std::vector<InferenceRemedySpec>& all_inference_remedies() {
#define GPUMEMPROF_CALL_REMEDY(name) inference_remedies::name(),
  static const std::vector<InferenceRemedySpec> kRemedies = {
      GPUMEMPROF_INFERENCE_REMEDIES(GPUMEMPROF_CALL_REMEDY)};
#undef GPUMEMPROF_CALL_REMEDY
  return kRemedies;
}

std::vector<InferenceRemedy> study_inference_remedies(const InferenceRun& run) {
  std::vector<InferenceRemedy> remedies;
  for (const InferenceRemedySpec& spec : all_inference_remedies()) {
    InferenceRemedy& remedy = remedies.emplace_back();
    static_cast<InferenceEffect&>(remedy) = spec.effect(run);
    remedy.name = spec.name;
    remedy.title = spec.title;
    remedy.how = spec.how;
    remedy.cost = spec.cost;
    remedy.changes_precision = spec.changes_precision;
    remedy.batch_factor = spec.batch_factor;
  }
  return remedies;
}

}  // namespace gpumemprof
