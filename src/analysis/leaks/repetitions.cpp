#include "analysis/leaks/repetitions.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "analysis/code/code_kind.h"
#include "analysis/code/user_frame.h"
#include "analysis/phases/run_kind.h"

namespace gpumemprof {
namespace {

std::vector<PhaseSpan> spans_at(const std::vector<std::uint32_t>& begins) {
  std::vector<PhaseSpan> spans;
  if (begins.empty() || begins.front() > 0) spans.push_back({0, Phase::other, 0});
  for (std::size_t index = 0; index < begins.size(); ++index)
    spans.push_back({begins[index], Phase::forward, static_cast<std::uint32_t>(index) + 1});
  return spans;
}

Repetitions repeated(RepetitionKind kind, StackId line, const std::vector<std::uint32_t>& begins) {
  return {kind, line, spans_at(begins), static_cast<std::uint32_t>(begins.size())};
}

class RepetitionFinder {
 public:
  RepetitionFinder(const Store& store, const DeviceRecord& record,
                   const std::vector<PhaseSpan>& spans)
      : store_(store), record_(record), spans_(spans), kinds_(code_kinds(store)) {}

  Repetitions run(std::uint32_t fewest) {
    Repetitions steps = of_steps();
    if (steps.count >= fewest) return steps;
    const bool trains = std::any_of(spans_.begin(), spans_.end(), [](const PhaseSpan& span) {
      return span.phase == Phase::backward || span.phase == Phase::optimizer_step;
    });
    // Within a step memory grows and falls: a few steps do not show what stays.
    Repetitions found = trains ? of_backwards() : of_calls();
    if (!trains && found.count < fewest) found = of_lines(fewest);
    return found.count >= fewest ? found : steps;
  }

 private:
  // The program may mark its steps in any work.
  [[nodiscard]] Repetitions of_steps() const {
    std::vector<std::uint32_t> begins;
    std::uint32_t step = 0;
    bool has_phases = false;
    for (const PhaseSpan& span : spans_) {
      has_phases = has_phases || span.phase != Phase::other;
      if (span.step == step) continue;
      step = span.step;
      begins.push_back(span.first_event);
    }
    Repetitions steps = repeated(RepetitionKind::steps, {}, begins);
    if (has_phases) steps.spans = spans_;
    return steps;
  }

  [[nodiscard]] Repetitions of_backwards() const {
    std::vector<std::uint32_t> begins;
    std::uint32_t after_last = 0;
    for (std::size_t index = 0; index < spans_.size(); ++index) {
      if (spans_[index].phase != Phase::backward) continue;
      if (begins.empty()) {
        begins.push_back(index == 0 ? spans_[index].first_event : spans_[index - 1].first_event);
      } else {
        begins.push_back(after_last);
      }
      after_last = index + 1 < spans_.size() ? spans_[index + 1].first_event
                                             : static_cast<std::uint32_t>(record_.events.size());
    }
    return repeated(RepetitionKind::backwards, {}, begins);
  }

  // What an allocation is made by: its stack and, if modules are known, the module.
  [[nodiscard]] std::uint64_t maker(std::uint32_t event) const {
    const Column<std::uint32_t>& modules = record_.events.module;
    const std::uint32_t module = event < modules.size() ? modules[event] : kNoModule;
    return std::uint64_t{record_.events.stack[event].index} << 32U | module;
  }

  // The line that calls the model most often, and where each of its calls begins.
  [[nodiscard]] Repetitions of_calls() const {
    std::map<std::uint32_t, std::vector<std::uint32_t>> begins;
    const bool has_modules = !record_.events.module.empty();
    for (const ForwardCall& call : find_forward_calls(store_, record_, kinds_)) {
      std::vector<std::uint32_t>& of_site = begins[call.site.index];
      of_site.push_back(call.first_event);
      if (!has_modules) continue;
      // Several calls without an allocation between them.
      const std::uint64_t first = maker(call.first_event);
      for (std::uint32_t event = call.first_event + 1; event <= call.last_event; ++event) {
        if (record_.events.action[event] == Action::alloc && maker(event) == first)
          of_site.push_back(event);
      }
    }
    const auto most = std::max_element(
        begins.begin(), begins.end(),
        [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
    if (most == begins.end()) return {};
    return repeated(RepetitionKind::calls, StackId(most->first), most->second);
  }

  [[nodiscard]] std::uint32_t depth_of_user_line(StackId stack) const {
    std::uint32_t depth = 0;
    for (StackId at = user_part(store_, stack); !at.is_none(); at = store_.stacks().caller(at))
      ++depth;
    return depth;
  }

  // The outermost code that allocates again and again all through the run.
  [[nodiscard]] Repetitions of_lines(std::uint32_t fewest) const {
    if (find_run_kind(store_, record_, spans_) == RunKind::unknown && has_forward()) return {};
    std::unordered_map<std::uint32_t, std::vector<std::uint32_t>> by_stack;
    const EventColumns& events = record_.events;
    for (std::uint32_t event = 0; event < events.size(); ++event) {
      if (events.action[event] == Action::alloc && !events.stack[event].is_none())
        by_stack[events.stack[event].index].push_back(event);
    }
    const std::vector<std::uint32_t>* best = nullptr;
    StackId best_stack;
    std::uint32_t best_depth = 0;
    for (const auto& [stack, begins] : by_stack) {
      if (begins.size() < fewest || !spans_the_run(begins) || !does_work(begins)) continue;
      const std::uint32_t depth = depth_of_user_line(StackId(stack));
      const bool is_better = best == nullptr || depth < best_depth ||
                             (depth == best_depth &&
                              (begins.size() > best->size() ||
                               (begins.size() == best->size() && begins.front() < best->front())));
      if (!is_better) continue;
      best = &begins;
      best_stack = StackId(stack);
      best_depth = depth;
    }
    if (best == nullptr) return {};
    return repeated(RepetitionKind::lines, user_part(store_, best_stack), *best);
  }

  [[nodiscard]] bool has_forward() const {
    for (std::uint32_t event = 0; event < record_.events.size(); ++event) {
      const StackId stack = record_.events.stack[event];
      if (!stack.is_none() && kinds_[stack.index] == CodeKind::forward) return true;
    }
    return false;
  }

  [[nodiscard]] bool spans_the_run(const std::vector<std::uint32_t>& begins) const {
    const std::size_t span = begins.back() - begins.front();
    return 2 * span >= record_.events.size();
  }

  // A loop that only adds memory is loading something. Between two of its allocations, work makes
  // and frees others.
  [[nodiscard]] bool does_work(const std::vector<std::uint32_t>& begins) const {
    if (frees_young_.empty()) find_young_frees();
    std::size_t working = 0;
    for (std::size_t index = 0; index < begins.size(); ++index) {
      const std::uint32_t end = index + 1 < begins.size()
                                    ? begins[index + 1]
                                    : static_cast<std::uint32_t>(record_.events.size());
      const auto next = std::lower_bound(frees_young_.begin(), frees_young_.end(),
                                         std::pair<std::uint32_t, std::uint32_t>{begins[index], 0});
      if (next != frees_young_.end() && next->second < end) ++working;
    }
    return 2 * working >= begins.size();
  }

  // (birth, death) of what is freed; sorted by birth, each with the earliest death from there on.
  void find_young_frees() const {
    const AllocationColumns& rows = record_.allocations;
    for (std::size_t row = 0; row < rows.size(); ++row) {
      if (rows.alloc_event[row] != kNoEvent && rows.free_requested_event[row] != kNoEvent)
        frees_young_.emplace_back(rows.alloc_event[row], rows.free_requested_event[row]);
    }
    frees_young_.emplace_back(kNoEvent, kNoEvent);
    std::sort(frees_young_.begin(), frees_young_.end());
    for (std::size_t index = frees_young_.size() - 1; index > 0; --index)
      frees_young_[index - 1].second =
          std::min(frees_young_[index - 1].second, frees_young_[index].second);
  }

  const Store& store_;
  const DeviceRecord& record_;
  const std::vector<PhaseSpan>& spans_;
  std::vector<CodeKind> kinds_;
  mutable std::vector<std::pair<std::uint32_t, std::uint32_t>> frees_young_;
};

}  // namespace

Repetitions find_repetitions(const Store& store, const DeviceRecord& record,
                             const std::vector<PhaseSpan>& spans, std::uint32_t fewest) {
  return RepetitionFinder(store, record, spans).run(fewest);
}

}  // namespace gpumemprof
