#include "analysis/advice/remedies/rewrite.h"

namespace gpumemprof {

Rewrite::Rewrite(const RunFacts& run_facts, AllocationTimeline recorded)
    : facts(run_facts), timeline(std::move(recorded)) {
  place_of.assign(facts.record().allocations.size(), kNoPlace);
  for (std::uint32_t place = 0; place < timeline.rows.size(); ++place) {
    if (timeline.rows[place].origin != TimelineRow::kInserted)
      place_of[timeline.rows[place].origin] = place;
  }
}

}  // namespace gpumemprof
