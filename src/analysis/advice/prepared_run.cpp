#include "analysis/advice/prepared_run.h"

#include <algorithm>

#include "analysis/advice/change.h"
#include "analysis/advice/remedies/list.h"
#include "analysis/advice/remedies/remedy.h"
#include "analysis/advice/wording.h"

namespace gpumemprof {
namespace {

std::uint64_t least_bytes(const Advisor& advisor, const Change& change) {
  LeastShares least;
  for (const RemedySpec* remedy : change.remedies) {
    least.step *= remedy->least.step;
    least.weights *= remedy->least.weights;
    least.keeps_optimizer = least.keeps_optimizer && remedy->least.keeps_optimizer;
  }
  const SourceBytes& at_peak = advisor.baseline().by_source;
  const std::uint64_t weights = at_peak[MemorySource::parameters];
  const std::uint64_t step =
      least.keeps_optimizer
          ? advisor.allocated_bytes() - std::min(advisor.allocated_bytes(), weights)
          : at_peak[MemorySource::activations] + at_peak[MemorySource::inputs];
  return static_cast<std::uint64_t>(least.weights * static_cast<double>(weights) +
                                    least.step * static_cast<double>(step));
}

void predict(const Advisor& advisor, const Change& change, Remedy& remedy) {
  const Result<Prediction> prediction = advisor.predict(change);
  if (!prediction) {
    remedy.why = prediction.error().message;
    return;
  }
  const bool is_certain = std::none_of(change.remedies.begin(), change.remedies.end(),
                                       [](const RemedySpec* part) { return part->is_estimated; });
  remedy.provenance = is_certain ? Provenance::simulated : Provenance::estimated;
  if (advisor.run().is_partial()) {
    remedy.at_least_bytes = least_bytes(advisor, change);
    remedy.provenance = Provenance::estimated;
    remedy.why =
        "Counted up to the point where the run ran out of memory; the whole step needs more.";
    return;
  }
  remedy.peak_allocated = prediction.value().allocated;
  remedy.peak_reserved = prediction.value().reserved;
  remedy.after = prediction.value().at_peak;
  remedy.saving_bytes = static_cast<std::int64_t>(advisor.allocated_bytes()) -
                        static_cast<std::int64_t>(prediction.value().allocated.bytes);
  if (const std::optional<Slowdown> slowdown = find_slowdown(advisor.run(), change)) {
    remedy.slowdown_pct = slowdown->pct;
    remedy.is_slowdown_measured = slowdown->is_measured;
  }
  remedy.why = why(advisor, change, remedy, prediction.value());
}

// The remedies of one set; an Error if a name is not a remedy, or two cannot be combined.
Result<Change> find_set(const std::vector<std::string>& names) {
  Change set;
  for (const std::string& name : names) {
    const RemedySpec* remedy = find_remedy(name);
    if (remedy == nullptr)
      return Error{ErrorCode::usage, "unknown remedy '" + name + "'", "",
                   "gpumemprof advise FILE lists them"};
    for (const RemedySpec* other : set.remedies) {
      if (excludes(*remedy, *other))
        return Error{ErrorCode::usage,
                     name + " and " + std::string(other->name) + " cannot be combined", "",
                     "use only one of them"};
    }
    set.remedies.push_back(remedy);
  }
  return set;
}

std::optional<std::size_t> find_device(const Store& store, DeviceIndex device) {
  for (std::size_t index = 0; index < store.devices().size(); ++index) {
    if (store.devices()[index]->device == device) return index;
  }
  return std::nullopt;
}

}  // namespace

Remedy study(const Advisor& advisor, const Change& change) {
  Remedy remedy;
  const auto join = [](std::string& text, std::string_view between, std::string_view more) {
    if (!text.empty() && !more.empty()) text += between;
    text += more;
  };
  for (const RemedySpec* part : change.remedies) {
    join(remedy.name, "+", part->name);
    join(remedy.title, ", ", part->title);
    join(remedy.how, "\n", code_of(advisor.run(), change, *part));
    join(remedy.how_trainer, "\n", part->how_trainer);
    remedy.cost = std::max(remedy.cost, part->cost);
  }
  for (const RemedySpec* part : change.remedies) {
    if (const std::optional<std::string> obstacle = find_obstacle(advisor.run(), *part)) {
      remedy.why = *obstacle;
      return remedy;
    }
  }
  predict(advisor, change, remedy);
  return remedy;
}

Result<std::unique_ptr<PreparedRun>> PreparedRun::make(const Input& input) {
  const DeviceRecord& record = *input.store.devices()[input.index];
  WhatIfOptions validation;
  validation.device = record.device;
  Result<WhatIf> proven = make_whatif(input.store, input.replays, input.path, validation);
  if (!proven) return proven.error();
  std::unique_ptr<PreparedRun> made(new PreparedRun());
  const std::vector<PhaseSpan>& spans = input.phases[input.index];
  made->proven_ = std::move(proven).value();
  made->end_ = complete_run(input.store, record, spans);
  made->growth_ = find_growth(input.store, record, spans);
  made->recorded_events_ = static_cast<std::uint32_t>(record.events.size());
  made->run_ = std::make_unique<AdvisedRun>(
      AdvisedRunInput{input.store, record, spans, made->proven_.devices.front(), made->growth_,
                      made->end_, input.batch});
  if (input.other) {
    const std::optional<std::size_t> index = find_device(*input.other->store, record.device);
    if (!index) {
      return Error{ErrorCode::bad_input,
                   "the other recording has no " + input.store.device_name(record.device),
                   input.path, "give a recording of the same program on the same device"};
    }
    const RunFacts other(*input.other->store, *input.other->store->devices()[*index],
                         (*input.other->phases)[*index]);
    made->is_other_different_ = !made->run_->compare(other);
  }
  made->advisor_ = std::make_unique<Advisor>(*made->run_, input.replays[input.index]);
  return made;
}

Result<Remedy> PreparedRun::predict(const std::vector<std::string>& names) const {
  const Result<Change> set = find_set(names);
  if (!set) return set.error();
  return study(*advisor_, set.value());
}

Result<sim::AllocatedCurve> PreparedRun::curve(const std::vector<std::string>& names,
                                               std::uint32_t events_per_point) const {
  const Result<Change> set = find_set(names);
  if (!set) return set.error();
  Result<sim::AllocatedCurve> curve = advisor_->curve(set.value(), events_per_point);
  if (!curve) return curve;
  const std::uint32_t known =
      end_.completed ? std::min(end_.completed->resumed_at, recorded_events_) : recorded_events_;
  std::vector<std::uint64_t>& points = curve.value().most_bytes;
  const std::size_t count = (std::size_t{known} + events_per_point - 1) / events_per_point;
  // Nothing happens any more after the last request.
  points.resize(count, points.empty() ? 0 : points.back());
  return curve;
}

}  // namespace gpumemprof
