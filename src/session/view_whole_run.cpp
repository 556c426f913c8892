// Answers about a run as a whole: its steps, and what remedies would change.
#include <algorithm>

#include "analysis/leaks/leak_series.h"
#include "report/view/answers/answers_json.h"
#include "session/view.h"

namespace gpumemprof {
namespace {

// Of an excerpt, reports number events as the whole run does; the page's positions are its rows.
void use_rows(const ExcerptRange& range, std::uint32_t rows, DeviceSources& sources) {
  const auto settle = [&](std::uint32_t& event) {
    if (event != kNoEvent) event = std::min(range.row_of(event), rows - 1);
  };
  const auto settle_all = [&](auto& span) {
    settle(span.first_event);
    settle(span.last_event);
    settle(span.peak_event);
  };
  if (rows == 0) return;
  for (StepFigures& step : sources.steps) settle_all(step);
  for (PhaseFigures& phase : sources.phases) settle_all(phase);
}

}  // namespace

Result<std::string> View::answer_to(const view::StepsQuestion& question) const {
  if (const Status exists = check(question.device); !exists) return exists.error();
  const Device& device = find(question.device);
  if (device.whole == nullptr) {
    return view::steps_answer_json(device.indexed->overview(), device.indexed->store(), nullptr,
                                   nullptr);
  }
  const DeviceView& view = *device.whole;
  OverviewOptions options;
  options.device = view.record().device;
  Result<Overview> overview = files_[question.device.file].run.whole->overview(options);
  if (!overview) return overview.error();
  DeviceOverview& found = overview.value().devices.front();
  if (const auto& range = view.store().facts().device(view.record().device).excerpt)
    use_rows(*range, static_cast<std::uint32_t>(view.record().events.size()), found.sources);
  std::optional<LeakSeries> series;
  if (found.leaks && !found.leaks->leaks.empty()) {
    const LeakGround ground = find_leak_ground(view.store(), view.record(), view.phases());
    series = find_leak_series(view.store(), ground, *found.leaks);
  }
  return view::steps_answer_json(found, view.store(), &view.timeline().times(),
                                 series ? &*series : nullptr);
}

Result<std::string> View::answer_to(const view::AdviceQuestion& question, LongWork* work) const {
  if (const Status exists = check(question.device); !exists) return exists.error();
  const DeviceAdvice& tried = advice(question.device);
  const Result<Advice> found = tried.advice(question.fit, work);
  if (work != nullptr && work->is_given_up()) return LongWork::given_up();
  const Result<std::shared_ptr<const Recording>> recording = tried.recording();
  return view::advice_answer_json(
      found, recording ? recording.value()->store() : files_[question.device.file].run.store());
}

Result<std::string> View::answer_to(const view::TogetherQuestion& question, LongWork* work) const {
  if (const Status exists = check(question.device); !exists) return exists.error();
  return view::together_answer_json(advice(question.device).together(question.remedies, work));
}

}  // namespace gpumemprof
