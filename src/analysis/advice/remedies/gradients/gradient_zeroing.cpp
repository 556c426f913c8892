// What a program does between its steps: freeing gradients, emptying the cache.
#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <set>

#include "analysis/advice/remedies/rewrite.h"

namespace gpumemprof {
namespace {

constexpr std::uint32_t kNone = 0xffffffffU;

// How one gradient relates to the steps after it.
class GradientLife {
 public:
  GradientLife(const RunFacts& facts, std::uint32_t row) : facts_(facts), row_(row) {
    const std::vector<EventRange>& steps = facts.optimizer_steps();
    const std::uint32_t born = facts.birth(row);
    const auto found = std::partition_point(
        steps.begin(), steps.end(),
        [&](const EventRange& step) { return born != kNoEvent && step.first < born; });
    step_ = static_cast<std::size_t>(found - steps.begin());
  }

  // The first step that uses it; the number of steps if none does.
  [[nodiscard]] std::size_t step() const { return step_; }
  [[nodiscard]] bool lives_at(std::uint32_t event) const { return facts_.death(row_) > event; }

 private:
  const RunFacts& facts_;
  std::uint32_t row_;
  std::size_t step_ = 0;
};

// The first pass after a step; nullptr if there is none.
const ForwardPass* pass_behind(const RunFacts& facts, const EventRange& step) {
  const std::vector<ForwardPass>& passes = facts.passes();
  const auto found =
      std::partition_point(passes.begin(), passes.end(),
                           [&](const ForwardPass& pass) { return pass.first_event < step.end; });
  return found == passes.end() ? nullptr : &*found;
}

TimelineKey end_of(const EventRange& step) { return before_event(step.end, 0); }

enum class Fault : std::uint8_t { none, zeroed, late };

Fault fault_of(const RunFacts& facts, const GradientLife& life) {
  if (life.step() >= facts.optimizer_steps().size()) return Fault::none;
  const ForwardPass* next = pass_behind(facts, facts.optimizer_steps()[life.step()]);
  if (next == nullptr || !life.lives_at(next->first_event)) return Fault::none;
  if (!next->has_backward()) return Fault::late;
  return life.lives_at(next->backward_first) ? Fault::zeroed : Fault::late;
}

template <typename Visit>
void for_each_gradient(const RunFacts& facts, Visit&& visit) {
  for (std::uint32_t row = 0; row < facts.record().allocations.size(); ++row) {
    if (facts.source(row) == MemorySource::gradients) visit(row, GradientLife(facts, row));
  }
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

  // At that place, or else the next one of that size that is not taken; kNone if there is none.
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
    return kNone;
  }

 private:
  const RunFacts& facts_;
  const ForwardPass& pass_;
  std::map<std::uint64_t, std::deque<std::uint32_t>> rows_;
  std::set<std::uint32_t> taken_;
};

}  // namespace

KeptGradients find_kept_gradients(const RunFacts& facts) {
  std::map<std::size_t, KeptGradients> by_step;
  for_each_gradient(facts, [&](std::uint32_t row, const GradientLife& life) {
    const Fault fault = fault_of(facts, life);
    if (fault == Fault::zeroed) by_step[life.step()].zeroed_bytes += facts.bytes(row);
    if (fault == Fault::late) by_step[life.step()].late_bytes += facts.bytes(row);
  });
  KeptGradients most;
  for (const auto& [step, kept] : by_step) {
    most.zeroed_bytes = std::max(most.zeroed_bytes, kept.zeroed_bytes);
    most.late_bytes = std::max(most.late_bytes, kept.late_bytes);
  }
  return most;
}

void zero_early(Rewrite& rewrite) {
  const RunFacts& facts = rewrite.facts;
  for_each_gradient(facts, [&](std::uint32_t row, const GradientLife& life) {
    TimelineRow* gradient = rewrite.find(row);
    if (gradient == nullptr || fault_of(facts, life) != Fault::late) return;
    const TimelineKey end = end_of(facts.optimizer_steps()[life.step()]);
    if (end > gradient->birth && end < gradient->death) gradient->die_at(end);
  });
}

// A gradient that was zeroed in place is freed after each step; what the next backward added to it
// is then the gradient, and lives until the step after that.
void zero_to_none(Rewrite& rewrite) {
  const RunFacts& facts = rewrite.facts;
  const std::vector<EventRange>& steps = facts.optimizer_steps();
  const std::map<std::uint32_t, std::size_t> places = places_in_backward(facts);
  std::map<const ForwardPass*, Parts> parts;
  for_each_gradient(facts, [&](std::uint32_t row, const GradientLife& life) {
    TimelineRow* gradient = rewrite.find(row);
    if (gradient == nullptr || fault_of(facts, life) != Fault::zeroed) return;
    const TimelineKey last = gradient->death;
    TimelineRow* current = gradient;
    for (std::size_t step = life.step(); step < steps.size(); ++step) {
      if (last <= end_of(steps[step])) return;
      const ForwardPass* next = pass_behind(facts, steps[step]);
      if (next == nullptr) {
        current->die_at(end_of(steps[step]));
        return;
      }
      const auto made = parts.try_emplace(next, facts, *next).first;
      const auto place = places.find(row);
      const std::uint32_t part = made->second.take(
          place == places.end() ? std::nullopt : std::optional(place->second), facts.bytes(row));
      TimelineRow* reborn = part == kNone ? nullptr : rewrite.find(part);
      if (reborn == nullptr || !reborn->is_there()) return;  // nothing shows when it comes back
      current->die_at(end_of(steps[step]));
      reborn->die_at(last);
      reborn->source = MemorySource::gradients;
      current = reborn;
      while (step + 1 < steps.size() && steps[step + 1].end <= next->first_event) ++step;
    }
  });
}

std::uint32_t empty_cache_each_step(Rewrite& rewrite) {
  std::uint32_t times = 0;
  for (const EventRange& step : rewrite.facts.optimizer_steps()) {
    const ForwardPass* next = pass_behind(rewrite.facts, step);
    if (next == nullptr) continue;
    rewrite.timeline.commands.push_back(
        {before_event(next->first_event, 0), sim::RequestKind::empty_cache, 0});
    ++times;
  }
  return times;
}

}  // namespace gpumemprof
