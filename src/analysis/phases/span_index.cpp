#include "analysis/phases/span_index.h"

namespace gpumemprof {

SpanIndex::SpanIndex(const std::vector<PhaseSpan>& spans, std::size_t events)
    : events_(static_cast<std::uint32_t>(events)) {
  for (const PhaseSpan& span : spans) {
    if (!phase_.empty() && phase_.back() == span.phase) continue;
    first_.push_back(phase_.empty() ? 0 : span.first_event);
    phase_.push_back(span.phase);
  }
  if (phase_.empty()) {
    first_.push_back(0);
    phase_.push_back(Phase::other);
  }
  next_forward_.assign(count(), count());
  next_backward_.assign(count(), count());
  for (std::size_t run = count() - 1; run-- > 0;) {
    next_forward_[run] = phase_[run + 1] == Phase::forward ? run + 1 : next_forward_[run + 1];
    next_backward_[run] = phase_[run + 1] == Phase::backward ? run + 1 : next_backward_[run + 1];
  }
  std::uint32_t run = 0;
  for (std::uint32_t event = 0; event < events_; event += kStride) {
    while (run + 1 < count() && first_[run + 1] <= event) ++run;
    run_at_stride_.push_back(run);
  }
}

std::size_t SpanIndex::run_of(std::uint32_t event) const {
  if (event >= events_) return count() - 1;
  std::size_t run = run_at_stride_[event / kStride];
  while (run + 1 < count() && first_[run + 1] <= event) ++run;
  return run;
}

}  // namespace gpumemprof
