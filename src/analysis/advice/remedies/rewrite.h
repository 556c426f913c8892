// Rewrite: a recorded run on its way to what a changed program would allocate. Remedies change its
// timeline one after the other.
//
// Rows of the recording keep their place in the timeline (TimelineRow::origin), so that a later
// remedy finds what an earlier one left of them.
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/advice/run/allocation_timeline.h"
#include "analysis/advice/run/run_facts.h"

namespace gpumemprof {

// The timeline, with a map from rows of the recording to rows of the timeline.
struct Rewrite {
  const RunFacts& facts;
  AllocationTimeline timeline;
  std::vector<std::uint32_t> place_of;  // by row of the recording; kNoPlace: not in the timeline
  // Bytes at risk: what the result depends on but the recording does not say. Sums of whole rows.
  std::uint64_t doubtful_low_bytes = 0;   // the peak may be lower by this much
  std::uint64_t doubtful_high_bytes = 0;  // or higher by this much
  // Of unified memory, which may be on the host: both peaks may be lower by this much.
  std::uint64_t pageable_bytes = 0;

  static constexpr std::uint32_t kNoPlace = 0xffffffffU;

  Rewrite(const RunFacts& run_facts, AllocationTimeline recorded);
  // The timeline's row for a row of the recording, nullptr if it has none.
  TimelineRow* find(std::uint32_t row) {
    return place_of[row] == kNoPlace ? nullptr : &timeline.rows[place_of[row]];
  }
};

}  // namespace gpumemprof
