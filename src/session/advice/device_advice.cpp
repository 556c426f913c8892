#include "session/advice/device_advice.h"

#include <algorithm>

#include "analysis/phases/run_kind.h"

namespace gpumemprof {
namespace {

constexpr std::size_t kMostKnown = 16;

std::vector<std::string> names_in(const std::string& text) {
  std::vector<std::string> names;
  std::size_t from = 0;
  while (from <= text.size()) {
    const std::size_t end = std::min(text.find('+', from), text.size());
    names.push_back(text.substr(from, end - from));
    from = end + 1;
  }
  return names;
}

// The most of each `per_point` values.
std::vector<std::uint64_t> most_of_each(std::span<const std::uint64_t> values,
                                        std::uint32_t per_point) {
  std::vector<std::uint64_t> points;
  for (std::size_t from = 0; from < values.size(); from += per_point) {
    const std::size_t count = std::min<std::size_t>(per_point, values.size() - from);
    points.push_back(std::ranges::max(values.subspan(from, count)));
  }
  return points;
}

void begin(LongWork* work, const char* what) {
  if (work != nullptr) work->begin(what);
}

std::function<void(std::size_t, std::size_t)> progress_of(LongWork* work) {
  if (work == nullptr) return {};
  return [work](std::size_t done, std::size_t total) { work->update(done, total); };
}

std::function<bool()> given_up_of(LongWork* work) {
  if (work == nullptr) return {};
  return [work] { return work->is_given_up(); };
}

}  // namespace

Result<DeviceAdvice::Part> DeviceAdvice::open_part() const {
  Result<std::shared_ptr<const Recording>> opened = open_();
  if (!opened) return opened.error();
  if (opened.value() == nullptr)
    return Error{ErrorCode::usage, "no part of it can be read on its own", "",
                 "run gpumemprof advise on it"};
  Part part;
  part.recording = std::move(opened).value();
  const std::optional<std::size_t> row = part.recording->store().device_row(device_);
  GMP_CHECK(row);
  part.index = *row;
  part.times = std::make_unique<EventTimes>(
      part.record().events, part.range() ? part.range()->run_start_ns : kUnknownTime);
  return part;
}

const Result<DeviceAdvice::Part>& DeviceAdvice::part(LongWork* work) const {
  begin(work, "reading the steps around the peak");
  std::call_once(is_open_, [this] { part_ = std::make_unique<const Result<Part>>(open_part()); });
  return *part_;
}

Result<std::shared_ptr<const Recording>> DeviceAdvice::recording() const {
  const Result<Part>& opened = part(nullptr);
  if (!opened) return opened.error();
  return opened.value().recording;
}

const Result<std::unique_ptr<PreparedRun>>& DeviceAdvice::prepared(const Part& part) const {
  std::call_once(is_prepared_, [&] {
    const Recording& recording = *part.recording;
    prepared_ = std::make_unique<const Result<std::unique_ptr<PreparedRun>>>(
        PreparedRun::make({recording.store(), recording.replays(), recording.phases(), part.index,
                           recording.path(), std::nullopt, std::nullopt}));
  });
  return *prepared_;
}

Result<Advice> DeviceAdvice::advice(std::optional<std::uint64_t> fit_bytes, LongWork* work) const {
  const Result<Part>& opened = part(work);
  if (!opened) return opened.error();
  const std::scoped_lock lock(mutex_);
  if (const auto found = known_.find(fit_bytes); found != known_.end()) return found->second;
  begin(work, fit_bytes ? "looking for remedies that fit" : "trying remedies");
  AdviceOptions options;
  options.device = device_;
  options.fit_bytes = fit_bytes;
  options.progress = progress_of(work);
  options.is_given_up = given_up_of(work);
  Result<Advice> made = opened.value().recording->advise(options);
  if (!made) return made;
  if (known_.size() == kMostKnown) known_.clear();
  known_.emplace(fit_bytes, made.value());
  return made;
}

Status DeviceAdvice::take_curve(const Part& part, const PreparedRun& run,
                                const std::vector<std::string>& names, std::uint32_t most_points,
                                view::PredictedTogether& made) {
  const std::uint32_t lead_in = part.range() ? part.range()->lead_in : 0;
  const auto events = static_cast<std::uint32_t>(part.record().events.size()) - lead_in;
  made.first_event = part.range() ? part.range()->from : 0;
  made.events_per_point = std::max(1U, (events + most_points - 1) / most_points);
  // Points begin with the part: what leads to it is no part of the run.
  Result<sim::AllocatedCurve> curve = run.curve(names, lead_in == 0 ? made.events_per_point : 1);
  if (!curve) return curve.error();
  made.most_bytes = std::move(curve.value().most_bytes);
  if (lead_in > 0) {
    const std::span<const std::uint64_t> all = made.most_bytes;
    made.most_bytes = most_of_each(all.subspan(std::min<std::size_t>(lead_in, all.size())),
                                   made.events_per_point);
  }
  if (!part.times->is_known()) return Done{};
  for (std::size_t point = 0; point < made.most_bytes.size(); ++point) {
    const auto event = static_cast<std::uint32_t>(lead_in + (point * made.events_per_point));
    made.starts_ns.push_back(part.times->since_first(part.times->of_event(event)));
  }
  return Done{};
}

Result<view::PredictedTogether> DeviceAdvice::together(const std::string& remedies, LongWork* work,
                                                       std::uint32_t most_points) const {
  const Result<Part>& opened = part(work);
  if (!opened) return opened.error();
  const Part& tried = opened.value();
  const Recording& recording = *tried.recording;
  const std::vector<std::string> names = names_in(remedies);
  begin(work, "trying remedies together");
  view::PredictedTogether made;
  made.whole_bytes = recording.replays()[tried.index].peak.allocated_bytes;
  if (find_run_kind(recording.store(), tried.record(), recording.phases()[tried.index]) ==
      RunKind::inference) {
    AdviceOptions options;
    options.device = device_;
    if (names.size() > 1) options.together = {names};
    const Result<Advice> advice = recording.advise(options);
    if (!advice) return advice.error();
    const auto found = std::ranges::find(advice.value().remedies, remedies, &Remedy::name);
    if (found == advice.value().remedies.end())
      return Error{ErrorCode::usage, "unknown remedy '" + remedies + "' for inference", "",
                   "gpumemprof advise FILE lists them"};
    made.remedy = *found;
    return made;
  }
  if (!prepared(tried)) return prepared(tried).error();
  const PreparedRun& run = *prepared(tried).value();
  Result<Remedy> remedy = run.predict(names);
  if (!remedy) return remedy.error();
  made.remedy = std::move(remedy).value();
  made.whole_bytes = run.advisor().allocated_bytes();
  if (!made.remedy.peak_allocated) return made;
  if (const Status taken = take_curve(tried, run, names, most_points, made); !taken)
    return taken.error();
  return made;
}

Result<WhatIf> DeviceAdvice::settings(std::vector<std::string> alloc_confs, LongWork* work) const {
  const Result<Part>& opened = part(work);
  if (!opened) return opened.error();
  begin(work, "simulating other settings");
  WhatIfOptions options;
  options.device = device_;
  options.alloc_confs = std::move(alloc_confs);
  return opened.value().recording->whatif(options);
}

}  // namespace gpumemprof
