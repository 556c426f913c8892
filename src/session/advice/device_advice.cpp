#include "session/advice/device_advice.h"

#include <algorithm>

#include "analysis/phases/run_kind.h"

namespace gpumemprof {
namespace {

constexpr std::uint32_t kMostPoints = 2048;  // more than a screen shows
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

}  // namespace

const Result<std::unique_ptr<PreparedRun>>& DeviceAdvice::prepared() const {
  std::call_once(is_prepared_, [this] {
    prepared_ = std::make_unique<const Result<std::unique_ptr<PreparedRun>>>(
        PreparedRun::make({recording_->store(), recording_->replays(), recording_->phases(), index_,
                           recording_->path(), std::nullopt, std::nullopt}));
  });
  return *prepared_;
}

Result<Advice> DeviceAdvice::advice(std::optional<std::uint64_t> fit_bytes) const {
  const std::scoped_lock lock(mutex_);
  if (const auto found = known_.find(fit_bytes); found != known_.end()) return found->second;
  AdviceOptions options;
  options.device = record().device;
  options.fit_bytes = fit_bytes;
  Result<Advice> made = recording_->advise(options);
  if (!made) return made;
  if (known_.size() == kMostKnown) known_.clear();
  known_.emplace(fit_bytes, made.value());
  return made;
}

Result<view::PredictedTogether> DeviceAdvice::together(const std::string& remedies) const {
  const DeviceReplay& replay = recording_->replays()[index_];
  const std::vector<std::string> names = names_in(remedies);
  view::PredictedTogether made;
  made.whole_bytes = replay.peak.allocated_bytes;
  if (find_run_kind(recording_->store(), record(), recording_->phases()[index_]) ==
      RunKind::inference) {
    AdviceOptions options;
    options.device = record().device;
    if (names.size() > 1) options.together = {names};
    const Result<Advice> advice = recording_->advise(options);
    if (!advice) return advice.error();
    const auto found = std::ranges::find(advice.value().remedies, remedies, &Remedy::name);
    if (found == advice.value().remedies.end())
      return Error{ErrorCode::usage, "unknown remedy '" + remedies + "' for inference", "",
                   "gpumemprof advise FILE lists them"};
    made.remedy = *found;
    return made;
  }
  if (!prepared()) return prepared().error();
  const PreparedRun& run = *prepared().value();
  Result<Remedy> remedy = run.predict(names);
  if (!remedy) return remedy.error();
  made.remedy = std::move(remedy).value();
  made.whole_bytes = run.advisor().allocated_bytes();
  if (!made.remedy.peak_allocated) return made;
  const auto events = static_cast<std::uint32_t>(record().events.size());
  Result<sim::AllocatedCurve> curve = run.curve(names, (events + kMostPoints - 1) / kMostPoints);
  if (!curve) return curve.error();
  made.events_per_point = curve.value().events_per_point;
  made.most_bytes = std::move(curve.value().most_bytes);
  return made;
}

}  // namespace gpumemprof
