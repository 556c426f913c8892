// empty_cache: after each step, memory that nothing uses is returned to the driver.
#include <algorithm>

#include "analysis/advice/advisor.h"
#include "analysis/advice/remedies/list.h"
#include "base/bytes.h"

namespace gpumemprof::remedies {
namespace {

void empty_cache_rewrite(const AdvisedRun&, const Change&, Rewrite& changed) {
  for (const EventRange& step : changed.facts.optimizer_steps()) {
    const ForwardPass* next = changed.facts.first_pass_after(step);
    if (next == nullptr) continue;
    changed.timeline.commands.push_back(
        {before_event(next->first_event, 0), sim::RequestKind::empty_cache, 0});
  }
}

std::string empty_cache_explanation(const Advisor& advisor, const Prediction& prediction) {
  const std::uint64_t before = advisor.segment_requests();
  const std::uint64_t more =
      prediction.segment_requests > before ? prediction.segment_requests - before : 0;
  const std::size_t steps =
      std::max<std::size_t>(advisor.run().facts().optimizer_steps().size(), 2) - 1;
  return "The program needs as much memory as before: this only returns what is free between "
         "steps, for other processes to use. Reserved memory goes from " +
         format_bytes(advisor.reserved_bytes()) + " to " +
         format_bytes(prediction.reserved ? prediction.reserved->bytes : 0) +
         " at its peak, and about " + std::to_string(more / steps) +
         " segments must be allocated again in each step, while the GPU waits.";
}

}  // namespace

RemedySpec empty_cache() {
  return {
      .name = "empty_cache",
      .title = "empty the cache after each step",
      .cost = RemedyCost::slower,
      .how =
          "optimizer.step()\n"
          "torch.cuda.empty_cache()",
      .how_trainer = "TrainingArguments(torch_empty_cache_steps=1)",
      .aspect = Aspect::cache,
      .needs = {.optimizer_steps = true, .pool = true},
      .band = 0.01,
      .fit_cost = 30,
      .is_verifiable = true,
      .rewrite = empty_cache_rewrite,
      .explanation = empty_cache_explanation,
  };
}

}  // namespace gpumemprof::remedies
