#include "analysis/leaks/repetitions.h"

#include <algorithm>

#include "analysis/code/user_frame.h"
#include "analysis/phases/run_kind.h"

namespace gpumemprof {
namespace {

std::vector<PhaseSpan> spans_at(const std::vector<std::uint32_t>& begins) {
  std::vector<PhaseSpan> spans;
  for (const std::uint32_t begin : begins) add_repetition(spans, begin);
  if (spans.empty()) spans.push_back({0, Phase::other, 0});
  return spans;
}

Repetitions repeated(RepetitionKind kind, const std::vector<std::uint32_t>& begins) {
  Repetitions found;
  found.kind = kind;
  found.spans = spans_at(begins);
  found.count = static_cast<std::uint32_t>(begins.size());
  return found;
}

// The program may mark its steps in any work.
Repetitions of_steps(const std::vector<PhaseSpan>& spans) {
  std::vector<std::uint32_t> begins;
  std::uint32_t step = 0;
  bool has_phases = false;
  for (const PhaseSpan& span : spans) {
    has_phases = has_phases || span.phase != Phase::other;
    if (span.step == step) continue;
    step = span.step;
    begins.push_back(span.first_event);
  }
  Repetitions steps = repeated(RepetitionKind::steps, begins);
  steps.are_steps_of_run = has_phases;
  if (has_phases) steps.spans = spans;
  return steps;
}

Repetitions of_backwards(const std::vector<PhaseSpan>& spans, std::uint32_t events) {
  std::vector<std::uint32_t> begins;
  std::uint32_t after_last = 0;
  for (std::size_t index = 0; index < spans.size(); ++index) {
    if (spans[index].phase != Phase::backward) continue;
    if (begins.empty()) {
      begins.push_back(index == 0 ? spans[index].first_event : spans[index - 1].first_event);
    } else {
      begins.push_back(after_last);
    }
    after_last = index + 1 < spans.size() ? spans[index + 1].first_event : events;
  }
  return repeated(RepetitionKind::backwards, begins);
}

// What an allocation is made by: its stack and, if modules are known, the module.
std::uint64_t maker_of(const EventColumns& events, std::size_t place) {
  const std::uint32_t module = place < events.module.size() ? events.module[place] : kNoModule;
  return std::uint64_t{events.stack[place].index} << 32U | module;
}

std::uint32_t depth_of_user_line(const Store& store, StackId stack) {
  std::uint32_t depth = 0;
  for (StackId at = user_part(store, stack); !at.is_none(); at = store.stacks().caller(at)) ++depth;
  return depth;
}

}  // namespace

void add_repetition(std::vector<PhaseSpan>& spans, std::uint32_t event) {
  if (spans.empty() && event > 0) spans.push_back({0, Phase::other, 0});
  const std::uint32_t before = spans.empty() ? 0 : spans.back().step;
  spans.push_back({event, Phase::forward, before + 1});
}

CallTracker::CallTracker(const Store& store, const std::vector<CodeKind>& kinds)
    : kinds_(kinds), sites_(callers_of_forward(store.stacks(), kinds)) {}

void CallTracker::learn(const Store& store) { sites_ = callers_of_forward(store.stacks(), kinds_); }

// A call ends where the program allocates outside of it, or with another call.
std::optional<CallTracker::Begin> CallTracker::next(const EventColumns& events, std::size_t place) {
  const StackId stack = events.stack[place];
  if (events.action[place] != Action::alloc || stack.is_none()) return std::nullopt;
  const bool was_open = is_open_;
  is_open_ = kinds_[stack.index] == CodeKind::forward;
  if (!is_open_) return std::nullopt;
  const StackId site = sites_[stack.index];
  const std::uint64_t maker = maker_of(events, place);
  if (!was_open || site_ != site) {
    site_ = site;
    first_maker_ = maker;
    return Begin{site, false};
  }
  // Several calls without an allocation between them.
  if (maker == first_maker_) return Begin{site, true};
  return std::nullopt;
}

void RepetitionCandidates::follow(const Store& store, const EventColumns& events, std::size_t begin,
                                  std::size_t end, std::uint32_t first,
                                  const std::vector<Free>& frees) {
  if (!tracker_ || stacks_ != store.stacks().size()) {
    // New code; what was open stays so.
    stacks_ = store.stacks().size();
    kinds_ = code_kinds(store);
    if (tracker_) {
      tracker_->learn(store);
    } else {
      tracker_ = std::make_unique<CallTracker>(store, kinds_);
    }
    lines_.resize(stacks_);
  }
  has_modules_ = has_modules_ || !events.module.empty();
  auto freed = frees.begin();
  for (std::size_t place = begin; place < end; ++place) {
    const std::uint32_t event = first + static_cast<std::uint32_t>(place - begin);
    for (; freed != frees.end() && freed->death < event; ++freed)
      youngest_freed_ = std::max(youngest_freed_.value_or(0), freed->birth);
    const StackId stack = events.stack[place];
    if (stack.is_none()) continue;
    has_forward_ = has_forward_ || kinds_[stack.index] == CodeKind::forward;
    if (events.action[place] != Action::alloc) continue;
    note_line(stack, event);
    if (const auto call = tracker_->next(events, place))
      ++(call->is_by_module ? calls_[call->site.index].by_module : calls_[call->site.index].calls);
  }
  for (; freed != frees.end(); ++freed)
    youngest_freed_ = std::max(youngest_freed_.value_or(0), freed->birth);
}

void RepetitionCandidates::note_line(StackId stack, std::uint32_t event) {
  Line& line = lines_[stack.index];
  if (line.count == 0) {
    line.first = event;
  } else if (youngest_freed_ && *youngest_freed_ >= line.last) {
    ++line.working;
  }
  line.last = event;
  ++line.count;
}

// The line that calls the model most often.
Repetitions RepetitionCandidates::of_calls() const {
  Repetitions found;
  for (const auto& [site, calls] : calls_) {
    const std::uint32_t count = calls.calls + (has_modules_ ? calls.by_module : 0);
    if (count <= found.count) continue;
    found.count = count;
    found.line = StackId(site);
  }
  if (found.count == 0) return {};
  found.kind = RepetitionKind::calls;
  found.tells_modules_apart = has_modules_;
  return found;
}

// The outermost code that allocates again and again all through the run. A loop that only adds
// memory is loading something: between two of its allocations, work makes and frees others.
Repetitions RepetitionCandidates::of_lines(const Store& store, RunKind run, std::uint32_t events,
                                           std::uint32_t fewest) const {
  if (run == RunKind::unknown && has_forward_) return {};
  const Line* best = nullptr;
  StackId best_stack;
  std::uint32_t best_depth = 0;
  for (std::size_t stack = 0; stack < lines_.size(); ++stack) {
    const Line& line = lines_[stack];
    if (line.count < std::max(fewest, 1U)) continue;
    const bool works_at_end = youngest_freed_ && *youngest_freed_ >= line.last;
    const std::uint64_t working = line.working + (works_at_end ? 1U : 0U);
    const bool spans_the_run = 2 * std::uint64_t{line.last - line.first} >= events;
    if (!spans_the_run || 2 * working < line.count) continue;
    const std::uint32_t depth = depth_of_user_line(store, StackId(stack));
    const bool is_better =
        best == nullptr || depth < best_depth ||
        (depth == best_depth &&
         (line.count > best->count || (line.count == best->count && line.first < best->first)));
    if (!is_better) continue;
    best = &line;
    best_stack = StackId(stack);
    best_depth = depth;
  }
  if (best == nullptr) return {};
  Repetitions found;
  found.kind = RepetitionKind::lines;
  found.line = user_part(store, best_stack);
  found.maker = best_stack;
  found.count = best->count;
  return found;
}

Repetitions RepetitionCandidates::choose(const Store& store, const std::vector<PhaseSpan>& spans,
                                         RunKind run, std::uint32_t events,
                                         std::uint32_t fewest) const {
  Repetitions steps = of_steps(spans);
  if (steps.count >= fewest) return steps;
  const bool trains = std::any_of(spans.begin(), spans.end(), [](const PhaseSpan& span) {
    return span.phase == Phase::backward || span.phase == Phase::optimizer_step;
  });
  // Within a step memory grows and falls: a few steps do not show what stays.
  Repetitions found = trains ? of_backwards(spans, events) : of_calls();
  if (!trains && found.count < fewest) found = of_lines(store, run, events, fewest);
  return found.count >= fewest ? found : steps;
}

BeginFinder::BeginFinder(const Store& store, const Repetitions& repetitions)
    : repetitions_(repetitions), kinds_(code_kinds(store)), tracker_(store, kinds_) {}

bool BeginFinder::begins(const EventColumns& events, std::size_t place) {
  if (repetitions_.kind == RepetitionKind::lines)
    return events.action[place] == Action::alloc && events.stack[place] == repetitions_.maker;
  const std::optional<CallTracker::Begin> call = tracker_.next(events, place);
  return call && call->site == repetitions_.line &&
         (!call->is_by_module || repetitions_.tells_modules_apart);
}

Repetitions find_repetitions(const Store& store, const DeviceRecord& record,
                             const std::vector<PhaseSpan>& spans, std::uint32_t fewest) {
  RepetitionCandidates candidates;
  const EventColumns& events = record.events;
  const auto count = static_cast<std::uint32_t>(events.size());
  std::vector<RepetitionCandidates::Free> frees;
  const AllocationColumns& rows = record.allocations;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    if (rows.alloc_event[row] != kNoEvent && rows.free_requested_event[row] != kNoEvent)
      frees.push_back({rows.free_requested_event[row], rows.alloc_event[row]});
  }
  std::ranges::sort(frees, {}, &RepetitionCandidates::Free::death);
  candidates.follow(store, events, 0, count, 0, frees);
  Repetitions found =
      candidates.choose(store, spans, find_run_kind(store, record, spans), count, fewest);
  if (found.kind != RepetitionKind::calls && found.kind != RepetitionKind::lines) return found;
  BeginFinder finder(store, found);
  for (std::uint32_t event = 0; event < count; ++event) {
    if (finder.begins(events, event)) add_repetition(found.spans, event);
  }
  return found;
}

}  // namespace gpumemprof
