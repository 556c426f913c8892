// expandable_segments: segments grow in place, so that fewer gaps remain between live blocks.
#include "analysis/advice/advisor.h"
#include "analysis/advice/remedies/list.h"
#include "base/bytes.h"

namespace gpumemprof::remedies {
namespace {

std::optional<std::string> expandable_segments_obstacle(const AdvisedRun& run) {
  if (!run.store().settings().expandable_segments) return std::nullopt;
  return "The run already uses expandable segments.";
}

std::string expandable_segments_explanation(const Advisor& advisor, const Prediction& prediction) {
  return "Changes where memory is placed, not what the program needs: reserved memory goes from " +
         format_bytes(advisor.reserved_bytes()) + " to " +
         format_bytes(prediction.reserved ? prediction.reserved->bytes : 0) + ".";
}

}  // namespace

RemedySpec expandable_segments() {
  return {
      .name = "expandable_segments",
      .title = "expandable segments",
      .cost = RemedyCost::free,
      .how = "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
      .aspect = Aspect::allocator,
      .needs = {.passes = false, .pool = true},
      .band = 0.01,
      .fit_cost = 0.1,
      .fit_order = 10,
      .is_verifiable = true,
      .obstacle = expandable_segments_obstacle,
      .change_settings = [](AllocatorSettings& settings) { settings.expandable_segments = true; },
      .explanation = expandable_segments_explanation,
  };
}

}  // namespace gpumemprof::remedies
