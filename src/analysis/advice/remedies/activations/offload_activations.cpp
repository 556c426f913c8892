// What is kept in host memory until it is needed.
#include "analysis/advice/remedies/rewrite.h"

namespace gpumemprof {

void offload_activations(Rewrite& rewrite) {
  const RunFacts& facts = rewrite.facts;
  constexpr std::uint32_t kSoon = 3;
  for (const ForwardPass& pass : facts.passes()) {
    for (std::uint32_t place = 0; place < pass.forward.size(); ++place) {
      const std::uint32_t row = pass.forward[place];
      if (facts.source(row) != MemorySource::activations || !facts.is_saved(pass, row)) continue;
      TimelineRow* saved = rewrite.find(row);
      if (saved == nullptr || !saved->is_there() || saved->death == kTimelineEnd) continue;
      TimelineRow back = *saved;
      const std::uint32_t death = event_of(saved->death);
      std::uint32_t start = death;
      const Column<Action>& actions = facts.record().events.action;
      while (start > pass.backward_first && actions[start - 1] == Action::alloc) --start;
      const std::uint32_t user = place + kSoon;
      saved->die_at(user < pass.forward.size() ? before_event(facts.birth(pass.forward[user]), 0)
                                               : before_event(pass.backward_first, 0));
      back.birth = before_event(start, 0);
      back.origin = TimelineRow::kInserted;
      if (back.death > back.birth) rewrite.timeline.rows.push_back(back);
    }
  }
}

}  // namespace gpumemprof
