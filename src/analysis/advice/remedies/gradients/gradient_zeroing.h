// Gradients that stay live longer than their step needs them: shared by the remedies that free them
// earlier.
#pragma once

#include <algorithm>
#include <cstdint>

#include "analysis/advice/remedies/rewrite.h"

namespace gpumemprof {

// How one gradient relates to the steps after it.
class GradientLife {
 public:
  GradientLife(const RunFacts& facts, std::uint32_t row);

  // The first step that uses it; the number of steps if none does.
  [[nodiscard]] std::size_t step() const { return step_; }
  // It is zeroed in place: still live when the next backward begins.
  [[nodiscard]] bool is_zeroed() const { return is_zeroed_; }
  // It is freed only after the next forward began.
  [[nodiscard]] bool is_late() const { return is_late_; }

 private:
  std::size_t step_ = 0;
  bool is_zeroed_ = false;
  bool is_late_ = false;
};

template <typename Visit>
void for_each_gradient(const RunFacts& facts, Visit&& visit) {
  for (std::uint32_t row = 0; row < facts.record().allocations.size(); ++row) {
    if (facts.source(row) == MemorySource::gradients) visit(row, GradientLife(facts, row));
  }
}

// Where zero_grad() after this step would free gradients.
inline TimelineKey end_of(const EventRange& step) { return before_event(step.end, 0); }

// Gradients that are live when they need not be, in bytes at one step.
struct KeptGradients {
  std::uint64_t zeroed_bytes = 0;
  std::uint64_t late_bytes = 0;
};
KeptGradients find_kept_gradients(const RunFacts& facts);

}  // namespace gpumemprof
