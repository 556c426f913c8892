// offload_activations: what backward needs is moved to host memory and back.
#include <algorithm>

#include "analysis/advice/remedies/list.h"
#include "analysis/advice/remedies/transfer.h"

namespace gpumemprof::remedies {
namespace {

void offload_activations_rewrite(const AdvisedRun&, const Change&, Rewrite& changed) {
  const RunFacts& facts = changed.facts;
  constexpr std::uint32_t kSoon = 3;
  for (const ForwardPass& pass : facts.passes()) {
    for (std::uint32_t place = 0; place < pass.forward.size(); ++place) {
      const std::uint32_t row = pass.forward[place];
      if (facts.source(row) != MemorySource::activations || !facts.is_saved(pass, row)) continue;
      TimelineRow* saved = changed.find(row);
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
      if (back.death > back.birth) changed.timeline.rows.push_back(back);
    }
  }
}

std::uint64_t saved_bytes(const RunFacts& facts) {
  std::uint64_t most = 0;
  for (const ForwardPass& pass : facts.passes()) {
    std::uint64_t sum = 0;
    for (const std::uint32_t row : pass.forward) {
      const bool is_moved =
          facts.source(row) == MemorySource::activations && facts.is_saved(pass, row);
      sum += is_moved ? facts.bytes(row) : 0;
    }
    most = std::max(most, sum);
  }
  return most;
}

// To the host and back.
std::optional<Slowdown> offload_activations_slowdown(const AdvisedRun& run, const Change&) {
  return transfer_slowdown(run, 2 * saved_bytes(run.facts()));
}

}  // namespace

RemedySpec offload_activations() {
  return {
      .name = "offload_activations",
      .title = "keep what backward needs in host memory",
      .cost = RemedyCost::slower,
      .how =
          "with torch.autograd.graph.save_on_cpu(pin_memory=True):\n"
          "    loss = loss_function(model(x), y)",
      .aspect = Aspect::activations,
      .band = 0.08,
      .is_estimated = true,
      .least = {.step = 0},
      .fit_cost = 2,
      .rewrite = offload_activations_rewrite,
      .slowdown = offload_activations_slowdown,
  };
}

}  // namespace gpumemprof::remedies
