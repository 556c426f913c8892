#include "analysis/advice/completion/step_range.h"

namespace gpumemprof {

std::vector<StepRange> find_steps(const std::vector<PhaseSpan>& spans, std::size_t events) {
  std::vector<StepRange> steps;
  for (std::size_t index = 0; index < spans.size(); ++index) {
    const PhaseSpan& span = spans[index];
    if (steps.empty() || steps.back().step != span.step)
      steps.push_back({span.step, {span.first_event, span.first_event}, false, false, false});
    StepRange& step = steps.back();
    step.events.end = index + 1 < spans.size() ? spans[index + 1].first_event
                                               : static_cast<std::uint32_t>(events);
    if (span.phase == Phase::forward) step.has_forward = true;
    if (span.phase == Phase::backward && step.has_forward) step.has_backward = true;
    if (span.phase == Phase::optimizer_step && step.has_backward) step.has_optimizer = true;
  }
  std::erase_if(steps, [](const StepRange& step) { return step.step == 0; });
  return steps;
}

}  // namespace gpumemprof
