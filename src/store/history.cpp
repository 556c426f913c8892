#include "store/history.h"

#include <algorithm>

namespace gpumemprof {

const PhaseSpan* span_at(std::span<const PhaseSpan> spans, std::uint32_t event) {
  const auto next = std::ranges::upper_bound(spans, event, {}, &PhaseSpan::first_event);
  return next == spans.begin() ? nullptr : &*std::prev(next);
}

std::uint32_t step_at(std::span<const PhaseSpan> spans, std::uint32_t event) {
  const PhaseSpan* const span = event == kNoEvent ? nullptr : span_at(spans, event);
  return span == nullptr ? 0 : span->step;
}

bool AllocationColumns::was_pending_at_start(std::size_t row) const {
  return std::find(pending_at_start.begin(), pending_at_start.end(), AllocationId(row)) !=
         pending_at_start.end();
}

void AllocationColumns::clear() { *this = AllocationColumns(); }

void AllocationColumns::shrink_to_fit() {
  address.shrink_to_fit();
  size_bytes.shrink_to_fit();
  requested_bytes.shrink_to_fit();
  alloc_event.shrink_to_fit();
  free_requested_event.shrink_to_fit();
  free_completed_event.shrink_to_fit();
  stream.shrink_to_fit();
  stack.shrink_to_fit();
  segment.shrink_to_fit();
}

void SegmentColumns::clear() { *this = SegmentColumns(); }

}  // namespace gpumemprof
