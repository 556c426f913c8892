// zero_grad_to_none: zero_grad(set_to_none=True) after each step frees gradients, where the program
// fills them with zeros.
#include <deque>
#include <map>
#include <optional>
#include <set>

#include "analysis/advice/remedies/gradients/gradient_zeroing.h"
#include "analysis/advice/remedies/list.h"
#include "base/bytes.h"

namespace gpumemprof::remedies {
namespace {

constexpr std::uint32_t kNoPart = 0xffffffffU;

std::optional<std::string> zero_grad_to_none_obstacle(const AdvisedRun& run) {
  if (find_kept_gradients(run.facts()).zeroed_bytes > 0) return std::nullopt;
  return "No gradient is zeroed in place: none is live through the next forward.";
}

std::string zero_grad_to_none_introduction(const AdvisedRun& run) {
  return format_bytes(find_kept_gradients(run.facts()).zeroed_bytes) +
         " of gradients are zeroed in place, so they stay live during forward. ";
}

// Where each gradient was allocated in its own backward: the same place of a later backward
// allocates what is added to it.
std::map<std::uint32_t, std::size_t> places_in_backward(const RunFacts& facts) {
  std::map<std::uint32_t, std::size_t> places;
  for (const ForwardPass& pass : facts.passes()) {
    for (std::size_t place = 0; place < pass.backward.size(); ++place) {
      if (facts.source(pass.backward[place]) == MemorySource::gradients)
        places[pass.backward[place]] = place;
    }
  }
  return places;
}

// The parts of gradients that one backward allocates and adds to existing gradients.
class Parts {
 public:
  Parts(const RunFacts& facts, const ForwardPass& pass) : facts_(facts), pass_(pass) {
    for (const std::uint32_t row : pass.backward) {
      if (facts.source(row) != MemorySource::gradients) rows_[facts.bytes(row)].push_back(row);
    }
  }

  // At that place, or else the next one of that size that is not taken; kNoPart if there is none.
  std::uint32_t take(std::optional<std::size_t> place, std::uint64_t bytes) {
    if (place && *place < pass_.backward.size()) {
      const std::uint32_t row = pass_.backward[*place];
      const bool is_part =
          facts_.bytes(row) == bytes && facts_.source(row) != MemorySource::gradients;
      if (is_part && taken_.insert(row).second) return row;
    }
    std::deque<std::uint32_t>& rows = rows_[bytes];
    while (!rows.empty()) {
      const std::uint32_t row = rows.front();
      rows.pop_front();
      if (taken_.insert(row).second) return row;
    }
    return kNoPart;
  }

 private:
  const RunFacts& facts_;
  const ForwardPass& pass_;
  std::map<std::uint64_t, std::deque<std::uint32_t>> rows_;
  std::set<std::uint32_t> taken_;
};

// A gradient that was zeroed in place is freed after each step; what the next backward added to it
// is then the gradient, and lives until the step after that.
void zero_grad_to_none_rewrite(const AdvisedRun&, const Change&, Rewrite& changed) {
  const RunFacts& facts = changed.facts;
  const std::vector<EventRange>& steps = facts.optimizer_steps();
  const std::map<std::uint32_t, std::size_t> places = places_in_backward(facts);
  std::map<const ForwardPass*, Parts> parts;
  for_each_gradient(facts, [&](std::uint32_t row, const GradientLife& life) {
    TimelineRow* gradient = changed.find(row);
    if (gradient == nullptr || !life.is_zeroed()) return;
    const TimelineKey last = gradient->death;
    TimelineRow* current = gradient;
    for (std::size_t step = life.step(); step < steps.size(); ++step) {
      if (last <= end_of(steps[step])) return;
      const ForwardPass* next = facts.first_pass_after(steps[step]);
      if (next == nullptr) {
        current->die_at(end_of(steps[step]));
        return;
      }
      const auto made = parts.try_emplace(next, facts, *next).first;
      const auto place = places.find(row);
      const std::uint32_t part = made->second.take(
          place == places.end() ? std::nullopt : std::optional(place->second), facts.bytes(row));
      TimelineRow* reborn = part == kNoPart ? nullptr : changed.find(part);
      if (reborn == nullptr || !reborn->is_there()) return;  // nothing shows when it comes back
      current->die_at(end_of(steps[step]));
      reborn->die_at(last);
      reborn->source = MemorySource::gradients;
      current = reborn;
      while (step + 1 < steps.size() && steps[step + 1].end <= next->first_event) ++step;
    }
  });
}

}  // namespace

RemedySpec zero_grad_to_none() {
  return {
      .name = "zero_grad_to_none",
      .title = "free gradients after each step instead of zeroing them",
      .cost = RemedyCost::free,
      .how = "optimizer.zero_grad(set_to_none=True)  # the default since torch 2.0",
      .aspect = Aspect::gradients,
      .needs = {.optimizer_steps = true},
      .band = 0.01,
      .least = {.keeps_optimizer = false},
      .fit_cost = 0.1,
      .fit_order = 20,
      .is_verifiable = true,
      .obstacle = zero_grad_to_none_obstacle,
      .rewrite = zero_grad_to_none_rewrite,
      .introduction = zero_grad_to_none_introduction,
  };
}

}  // namespace gpumemprof::remedies
