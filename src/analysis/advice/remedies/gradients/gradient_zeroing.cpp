#include "analysis/advice/remedies/gradients/gradient_zeroing.h"

#include <map>

namespace gpumemprof {

GradientLife::GradientLife(const RunFacts& facts, std::uint32_t row) {
  const std::vector<EventRange>& steps = facts.optimizer_steps();
  const std::uint32_t born = facts.birth(row);
  const auto found = std::partition_point(steps.begin(), steps.end(), [&](const EventRange& step) {
    return born != kNoEvent && step.first < born;
  });
  step_ = static_cast<std::size_t>(found - steps.begin());
  if (found == steps.end()) return;
  const ForwardPass* next = facts.first_pass_after(*found);
  if (next == nullptr || facts.death(row) <= next->first_event) return;
  is_zeroed_ = next->has_backward() && facts.death(row) > next->backward_first;
  is_late_ = !is_zeroed_;
}

KeptGradients find_kept_gradients(const RunFacts& facts) {
  std::map<std::size_t, KeptGradients> by_step;
  for_each_gradient(facts, [&](std::uint32_t row, const GradientLife& life) {
    if (life.is_zeroed()) by_step[life.step()].zeroed_bytes += facts.bytes(row);
    if (life.is_late()) by_step[life.step()].late_bytes += facts.bytes(row);
  });
  KeptGradients most;
  for (const auto& [step, kept] : by_step) {
    most.zeroed_bytes = std::max(most.zeroed_bytes, kept.zeroed_bytes);
    most.late_bytes = std::max(most.late_bytes, kept.late_bytes);
  }
  return most;
}

}  // namespace gpumemprof
