// zero_grad_early: gradients are freed right after the step, not before the next backward.
#include "analysis/advice/remedies/gradients/gradient_zeroing.h"
#include "analysis/advice/remedies/list.h"
#include "base/bytes.h"

namespace gpumemprof::remedies {
namespace {

std::optional<std::string> zero_grad_early_obstacle(const AdvisedRun& run) {
  const KeptGradients kept = find_kept_gradients(run.facts());
  if (kept.late_bytes > 0) return std::nullopt;
  return kept.zeroed_bytes > 0 ? "Gradients are zeroed in place: see zero_grad_to_none."
                               : "Gradients are already freed before the next forward begins.";
}

std::string zero_grad_early_introduction(const AdvisedRun& run) {
  return format_bytes(find_kept_gradients(run.facts()).late_bytes) +
         " of gradients are freed only after the next forward has begun. ";
}

void zero_grad_early_rewrite(const AdvisedRun&, const Change&, Rewrite& changed) {
  const RunFacts& facts = changed.facts;
  for_each_gradient(facts, [&](std::uint32_t row, const GradientLife& life) {
    TimelineRow* gradient = changed.find(row);
    if (gradient == nullptr || !life.is_late()) return;
    const TimelineKey end = end_of(facts.optimizer_steps()[life.step()]);
    if (end > gradient->birth && end < gradient->death) gradient->die_at(end);
  });
}

}  // namespace

RemedySpec zero_grad_early() {
  return {
      .name = "zero_grad_early",
      .title = "free gradients right after the step",
      .cost = RemedyCost::free,
      .how =
          "optimizer.step()\n"
          "optimizer.zero_grad()  # here, not before backward()",
      .aspect = Aspect::gradients,
      .needs = {.optimizer_steps = true},
      .band = 0.01,
      .least = {.keeps_optimizer = false},
      .fit_cost = 0.1,
      .fit_order = 21,
      .obstacle = zero_grad_early_obstacle,
      .rewrite = zero_grad_early_rewrite,
      .introduction = zero_grad_early_introduction,
  };
}

}  // namespace gpumemprof::remedies
