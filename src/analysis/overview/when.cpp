#include "analysis/overview/when.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <string_view>
#include <vector>

namespace gpumemprof {
namespace {

constexpr std::string_view kProfilerStep = "ProfilerStep#";
constexpr std::string_view kOptimizerStep = "Optimizer.step#";

// The span that contains `event` gives its phase and its step, numbered as in the table of steps.
void place_in_phases(const std::vector<PhaseSpan>& phases, std::uint32_t event, When& when) {
  const auto is_known = [](const PhaseSpan& span) { return span.phase != Phase::other; };
  const PhaseSpan* const span = span_at(phases, event);
  if (span == nullptr) return;
  if (std::ranges::any_of(phases, is_known)) when.phase = span->phase;
  if (phases.back().step > 0) when.step = span->step;
}

// If no step was recognized: steps as torch.profiler numbers them, else by counting optimizer
// steps: an event before the end of the n-th optimizer step belongs to step n. Annotations are in
// order of time.
std::optional<std::uint64_t> step_at(const Store& store, DeviceIndex device, std::int64_t time_ns) {
  std::optional<std::uint64_t> profiler_step;
  std::uint64_t optimizer_steps_done = 0;
  bool has_optimizer_steps = false;
  for (const Annotation& annotation : store.annotations()) {
    if (annotation.device != device) continue;
    std::string_view name = store.text(annotation.name);
    if (name.starts_with(kProfilerStep) && annotation.stage == Annotation::Stage::start &&
        annotation.time_ns <= time_ns) {
      name.remove_prefix(kProfilerStep.size());
      std::uint64_t number = 0;
      std::from_chars(name.data(), name.data() + name.size(), number);
      profiler_step = number;
    }
    if (name.starts_with(kOptimizerStep)) {
      has_optimizer_steps = true;
      if (annotation.stage == Annotation::Stage::end && annotation.time_ns < time_ns)
        ++optimizer_steps_done;
    }
  }
  if (profiler_step) return profiler_step;
  if (has_optimizer_steps) return optimizer_steps_done + 1;
  return std::nullopt;
}

// "step 4", as gpumemprof.step() marks it: it counts from 0, When::step from 1.
bool is_step_mark(std::string_view name) {
  constexpr std::string_view kStep = "step ";
  return name.starts_with(kStep) && name.size() > kStep.size() &&
         name.find_first_not_of("0123456789", kStep.size()) == std::string_view::npos;
}

StringId innermost_annotation(const Store& store, DeviceIndex device, std::int64_t time_ns) {
  std::vector<StringId> open;
  for (const Annotation& annotation : store.annotations()) {
    if (annotation.device != device || annotation.time_ns > time_ns) continue;
    if (is_step_mark(store.text(annotation.name))) continue;
    if (annotation.stage == Annotation::Stage::start) {
      open.push_back(annotation.name);
    } else {
      std::erase(open, annotation.name);
    }
  }
  return open.empty() ? StringId() : open.back();
}

}  // namespace

When when_at(const Store& store, DeviceIndex device, const std::vector<PhaseSpan>& phases,
             std::uint32_t event, std::int64_t time_ns, std::int64_t first_time_ns) {
  When when;
  when.event = event;
  place_in_phases(phases, event, when);
  when.time_ns = time_ns;
  if (when.time_ns == kUnknownTime) return when;
  if (first_time_ns != kUnknownTime) when.since_start_ns = when.time_ns - first_time_ns;
  if (!when.step) when.step = step_at(store, device, when.time_ns);
  when.annotation = innermost_annotation(store, device, when.time_ns);
  return when;
}

When when_of(const Store& store, const DeviceRecord& record, const std::vector<PhaseSpan>& phases,
             std::uint32_t event) {
  if (event == kNoEvent || event >= record.events.size()) return {};
  return when_at(store, record.device, phases, event, record.events.time_ns[event],
                 first_time_of(record));
}

}  // namespace gpumemprof
