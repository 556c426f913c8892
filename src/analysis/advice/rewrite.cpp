#include "analysis/advice/rewrite.h"

namespace gpumemprof {

Rewrite::Rewrite(const RunFacts& run_facts, Tape recorded)
    : facts(run_facts), tape(std::move(recorded)) {
  place_of.assign(facts.record().allocations.size(), kNoPlace);
  for (std::uint32_t place = 0; place < tape.rows.size(); ++place) {
    if (tape.rows[place].origin != TapeRow::kInserted) place_of[tape.rows[place].origin] = place;
  }
}

}  // namespace gpumemprof
