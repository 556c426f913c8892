#include "store/history.h"

#include <algorithm>

namespace gpumemprof {

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
