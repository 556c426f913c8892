// Phases from stacks. Events whose code is clearly forward, backward or an optimizer step mark
// regions; what lies between them is decided by its neighbours: from a forward to its backward it
// is forward (the loss), otherwise it is something else (loading data, zeroing gradients, …).
#include <algorithm>
#include <optional>

#include "analysis/code/code_kind.h"
#include "analysis/phases/evaluation.h"
#include "analysis/phases/event_stacks.h"
#include "analysis/phases/run_kind.h"
#include "analysis/sources/measured.h"
#include "analysis/sources/sources.h"

namespace gpumemprof {
namespace {

// The events inside annotations whose name begins like this, in order.
std::vector<MarkedStep> annotated(const Store& store, const DeviceRecord& record,
                                  std::string_view beginning) {
  std::vector<MarkedStep> spans;
  bool is_open = false;
  const auto& times = record.events.time_ns;
  const auto row_of = [&](const std::int64_t* event) {
    return static_cast<std::uint32_t>(event - times.begin());
  };
  for (const Annotation& annotation : store.annotations()) {
    if (annotation.device != record.device || annotation.time_ns == kUnknownTime) continue;
    if (!store.text(annotation.name).starts_with(beginning)) continue;
    if (annotation.stage == Annotation::Stage::start) {
      const std::uint32_t first =
          row_of(std::lower_bound(times.begin(), times.end(), annotation.time_ns));
      spans.push_back({first, first});
      is_open = true;
    } else if (!spans.empty()) {
      spans.back().end_event =
          row_of(std::upper_bound(times.begin(), times.end(), annotation.time_ns));
      is_open = false;
    }
  }
  // One that never ended: an exception, or a truncated file.
  if (is_open) spans.back().end_event = static_cast<std::uint32_t>(times.size());
  return spans;
}

// The optimizer steps that a recording marks, with our own hooks or torch's annotations, in order.
std::vector<MarkedStep> marked_steps(const Store& store, const DeviceRecord& record) {
  std::vector<MarkedStep> steps = marked_optimizer_steps(record);
  return steps.empty() ? annotated(store, record, "Optimizer.step#") : steps;
}

// Asked about events in order: whether one of the spans contains it.
class InSpans {
 public:
  explicit InSpans(std::vector<MarkedStep> spans) : spans_(std::move(spans)) {}
  bool contain(std::uint32_t event) {
    while (next_ < spans_.size() && spans_[next_].end_event <= event) ++next_;
    return next_ < spans_.size() && spans_[next_].first_event <= event;
  }

 private:
  std::vector<MarkedStep> spans_;
  std::size_t next_ = 0;
};

class PhaseFinder {
 public:
  PhaseFinder(const Store& store, const DeviceRecord& record)
      : store_(store),
        record_(record),
        stacks_(find_event_stacks(record)),
        kinds_(code_kinds(store)),
        kind_without_stack_(find_kind_without_stack()) {}

  std::vector<PhaseSpan> run() {
    find_regions();
    find_plain_forwards();
    regions_ = with_evaluation(store_, record_, kinds_, regions_);
    lay_spans();
    count_steps();
    return std::move(spans_);
  }

 private:
  // Autograd's own threads have no Python stack; if stacks are recorded at all, an event without
  // one is theirs. But the backward of CPU tensors runs in the thread that calls it: where that is
  // seen, other threads help a kernel or a collective.
  [[nodiscard]] CodeKind find_kind_without_stack() const {
    const bool has_own_thread =
        store_.facts().kind() != DeviceKind::cpu || std::ranges::none_of(kinds_, is_in_backward);
    return has_own_thread ? CodeKind::backward : CodeKind::communicate;
  }

  [[nodiscard]] CodeKind kind_of(std::size_t event) const {
    if (!stacks_.has(record_.events.action[event])) return CodeKind::none;
    const StackId stack = record_.events.stack[event];
    return stack.is_none() ? kind_without_stack_ : kinds_[stack.index];
  }

  [[nodiscard]] static Phase phase_of(CodeKind kind) {
    if (is_in_backward(kind)) return Phase::backward;
    if (kind == CodeKind::forward) return Phase::forward;
    return kind == CodeKind::optimizer_step ? Phase::optimizer_step : Phase::other;
  }

  // The steps without the closure that an optimizer may be given, which runs forward and backward
  // before the optimizer changes anything.
  [[nodiscard]] std::vector<MarkedStep> steps_after_closures() const {
    std::vector<MarkedStep> steps = marked_steps(store_, record_);
    for (MarkedStep& step : steps) {
      const auto end = std::min<std::size_t>(step.end_event, record_.events.size());
      for (std::uint32_t event = step.first_event; event < end; ++event) {
        if (!is_request(record_.events.action[event])) continue;
        const CodeKind kind = kind_of(event);
        if (kind == CodeKind::forward || is_in_backward(kind)) step.first_event = event + 1;
      }
    }
    return steps;
  }

  void find_regions() {
    const EventColumns& events = record_.events;
    bool is_parted = false;  // user code allocated since the last mark
    InSpans steps(steps_after_closures());
    InSpans evaluations(annotated(store_, record_, "evaluation"));
    for (std::uint32_t event = 0; event < events.size(); ++event) {
      const Action action = events.action[event];
      if (action == Action::snapshot || action == Action::oom || action == Action::annotate ||
          action == Action::other)
        continue;
      const CodeKind kind = kind_of(event);
      Phase phase = phase_of(kind);
      const bool is_in_step = steps.contain(event);
      if (is_in_step && (phase == Phase::other || kind == CodeKind::none))
        phase = Phase::optimizer_step;
      if (evaluations.contain(event) && phase == Phase::forward) phase = Phase::evaluation;
      if (phase == Phase::other) {
        is_parted = is_parted ||
                    (is_request(action) && (kind == CodeKind::plain || kind == CodeKind::none));
        continue;
      }
      const bool calls_models = phase == Phase::forward || phase == Phase::evaluation;
      const bool continues =
          !regions_.empty() && regions_.back().phase == phase && !(is_parted && !calls_models);
      if (continues) {
        regions_.back().last = event;
      } else {
        regions_.push_back({phase, event, event});
      }
      regions_.back().has_request = regions_.back().has_request || is_request(action);
      is_parted = false;
    }
    drop_lone_frees();
    // Only what is trained has an evaluation: otherwise it is what the run does.
    const bool trains =
        std::ranges::find(regions_, Phase::backward, &Region::phase) != regions_.end();
    for (Region& region : regions_) {
      if (!trains && region.phase == Phase::evaluation) region.phase = Phase::forward;
    }
  }

  // Other threads without Python, such as those for communication, free memory too: that is not
  // backward, and does not split the region it falls into.
  void drop_lone_frees() {
    std::vector<Region> regions;
    bool has_dropped = false;
    for (const Region& region : regions_) {
      if (region.phase == Phase::backward && !region.has_request) {
        has_dropped = true;
        continue;
      }
      if (has_dropped && !regions.empty() && regions.back().phase == region.phase) {
        regions.back().last = region.last;
      } else {
        regions.push_back(region);
      }
      has_dropped = false;
    }
    regions_ = std::move(regions);
  }

  // A forward that no module runs: user code between two regions that allocates what the following
  // backward frees.
  void find_plain_forwards() {
    std::vector<std::uint32_t> first_birth(regions_.size(), kNoEvent);  // by backward region
    const AllocationColumns& allocations = record_.allocations;
    for (std::size_t row = 0; row < allocations.size(); ++row) {
      const std::uint32_t birth = allocations.alloc_event[row];
      const std::uint32_t death = allocations.free_requested_event[row];
      if (birth == kNoEvent || death == kNoEvent || kind_of(birth) != CodeKind::plain) continue;
      const std::size_t after = region_after(birth);
      if (after == regions_.size() || regions_[after].phase != Phase::backward) continue;
      if (after > 0 && regions_[after - 1].phase == Phase::forward) continue;
      if (death < regions_[after].first || death > regions_[after].last) continue;
      first_birth[after] = std::min(first_birth[after], birth);
    }
    std::vector<Region> regions;
    for (std::size_t index = 0; index < regions_.size(); ++index) {
      if (first_birth[index] != kNoEvent)
        regions.push_back({Phase::forward, first_birth[index], regions_[index].first - 1});
      regions.push_back(regions_[index]);
    }
    regions_ = std::move(regions);
  }

  // The first region that begins after the event.
  [[nodiscard]] std::size_t region_after(std::uint32_t event) const {
    const auto after =
        std::upper_bound(regions_.begin(), regions_.end(), event,
                         [](std::uint32_t at, const Region& region) { return at < region.first; });
    return static_cast<std::size_t>(after - regions_.begin());
  }

  void lay_spans() {
    std::uint32_t next = 0;  // the first event that is in no span yet
    for (std::size_t index = 0; index < regions_.size(); ++index) {
      const Region& region = regions_[index];
      if (next < region.first) {
        const bool is_loss = index > 0 && regions_[index - 1].phase == Phase::forward &&
                             region.phase == Phase::backward;
        if (!is_loss) add_span(next, Phase::other);
      }
      add_span(region.first, region.phase);
      next = region.last + 1;
      if (!stacks_.frees) next = after_frees(next);
    }
    if (next < record_.events.size()) add_span(next, Phase::other);
  }

  // If frees have no stack, those right after a region belong to the region.
  [[nodiscard]] std::uint32_t after_frees(std::uint32_t event) const {
    const EventColumns& events = record_.events;
    while (event < events.size() && (events.action[event] == Action::free_requested ||
                                     events.action[event] == Action::free_completed))
      ++event;
    return event;
  }

  void add_span(std::uint32_t first, Phase phase) {
    if (!spans_.empty() && spans_.back().phase == phase) return;
    spans_.push_back({first, phase, 0});
  }

  // The first step begins with the first phase; another begins at the first allocation after a step
  // ended. What is freed before that, mostly gradients, still belongs to the previous step.
  void count_steps() {
    std::vector<std::uint32_t> begins = marked_step_begins(record_);
    if (!begins.empty()) return split_at(begins);
    begins = ends_of_steps();
    for (std::uint32_t& event : begins) event = begin_of_step(event);
    std::erase_if(begins, [&](std::uint32_t event) { return event >= record_.events.size(); });
    const auto first = std::find_if(spans_.begin(), spans_.end(), [](const PhaseSpan& span) {
      return span.phase != Phase::other && span.phase != Phase::evaluation;
    });
    if (first == spans_.end()) return;
    begins.push_back(first->first_event);
    std::sort(begins.begin(), begins.end());
    begins.erase(std::unique(begins.begin(), begins.end()), begins.end());
    split_at(begins);
  }

  // Where the step after the one that ended at this event begins. Evaluation right after a step
  // does not belong to the next one, and is not a step by itself: kNoEvent if nothing else follows.
  [[nodiscard]] std::uint32_t begin_of_step(std::uint32_t event) const {
    auto region = std::find_if(regions_.begin(), regions_.end(),
                               [&](const Region& each) { return each.last >= event; });
    const auto first = region;
    while (region != regions_.end() && region->phase == Phase::evaluation) ++region;
    if (region == first) return first_request(event);
    return region == regions_.end() ? kNoEvent : first_request(std::prev(region)->last + 1);
  }

  // The first event after each step: after the optimizer's step, as annotations mark it or, outside
  // the time they cover, as its code shows it, or after a backward if no optimizer was seen.
  [[nodiscard]] std::vector<std::uint32_t> ends_of_steps() const {
    std::vector<std::uint32_t> ends = marked_step_ends(record_);
    if (!ends.empty()) return ends;
    for (const MarkedStep& step : marked_steps(store_, record_)) ends.push_back(step.end_event);
    const std::uint32_t marked_from = ends.empty() ? kNoEvent : ends.front();
    const std::uint32_t marked_to = ends.empty() ? 0 : ends.back();
    const auto collect = [&](Phase last) {
      for (std::size_t index = 0; index < spans_.size(); ++index) {
        if (spans_[index].phase != last) continue;
        const std::uint32_t end = index + 1 < spans_.size()
                                      ? spans_[index + 1].first_event
                                      : static_cast<std::uint32_t>(record_.events.size());
        if (end < marked_from || spans_[index].first_event > marked_to) ends.push_back(end);
      }
    };
    collect(Phase::optimizer_step);
    if (ends.empty()) collect(Phase::backward);
    return ends;
  }

  // Numbers the spans by step, splitting them where a step begins.
  void split_at(const std::vector<std::uint32_t>& begins) {
    std::vector<PhaseSpan> spans;
    std::uint32_t step = 0;
    for (std::size_t index = 0; index < spans_.size(); ++index) {
      PhaseSpan span = spans_[index];
      const std::uint32_t end = index + 1 < spans_.size()
                                    ? spans_[index + 1].first_event
                                    : static_cast<std::uint32_t>(record_.events.size());
      while (step < begins.size() && begins[step] <= span.first_event) ++step;
      span.step = step;
      spans.push_back(span);
      for (; step < begins.size() && begins[step] < end; ++step) {
        span.first_event = begins[step];
        span.step = step + 1;
        spans.push_back(span);
      }
    }
    spans_ = std::move(spans);
  }

  [[nodiscard]] std::uint32_t first_request(std::uint32_t event) const {
    while (event < record_.events.size() && !is_request(record_.events.action[event])) ++event;
    return event;
  }

  const Store& store_;
  const DeviceRecord& record_;
  EventStacks stacks_;
  std::vector<CodeKind> kinds_;
  CodeKind kind_without_stack_;
  std::vector<Region> regions_;
  std::vector<PhaseSpan> spans_;
};

}  // namespace

std::vector<PhaseSpan> find_spans(const Store& store, const DeviceRecord& record) {
  return PhaseFinder(store, record).run();
}

std::vector<PhaseSpan> find_phases(const Store& store, const DeviceRecord& record) {
  std::vector<PhaseSpan> spans = find_spans(store, record);
  // Calls of a model are not training steps, unless the program marks them as steps.
  const bool has_steps = !marked_step_begins(record).empty();
  if (!has_steps && find_run_kind(store, record, spans) == RunKind::inference) {
    for (PhaseSpan& span : spans) span.step = 0;
  }
  return spans;
}

}  // namespace gpumemprof
