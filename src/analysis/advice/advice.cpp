#include "analysis/advice/advice.h"

#include <algorithm>

#include "analysis/advice/advisor.h"
#include "analysis/advice/fit.h"
#include "analysis/advice/inference/inference.h"
#include "analysis/advice/inference/remedies/inference_remedy.h"
#include "analysis/advice/remedies/list.h"
#include "analysis/advice/wording.h"
#include "analysis/phases/run_kind.h"

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

// For one remedy, or for several together: then the first that cannot be predicted decides.
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

// The device with the highest peak, unless one is named.
Result<std::size_t> choose_device(const Store& store, const std::vector<DeviceReplay>& replays,
                                  const std::string& path, const AdviceOptions& options) {
  std::optional<std::size_t> chosen;
  for (std::size_t index = 0; index < store.devices().size(); ++index) {
    const DeviceIndex device = store.devices()[index]->device;
    if (options.device ? *options.device != device : device == kHostDevice) continue;
    if (!replays[index].has_history) continue;
    if (!chosen || replays[index].peak.allocated_bytes > replays[*chosen].peak.allocated_bytes)
      chosen = index;
  }
  if (chosen) return *chosen;
  return Error{ErrorCode::bad_input,
               options.device ? store.device_name(*options.device) + " has no history to advise on"
                              : "it has no history to advise on",
               path,
               "record one with gpumemprof run, or with "
               "torch.cuda.memory._record_memory_history() before the run"};
}

}  // namespace

std::vector<RemedyEntry> list_remedies() {
  std::vector<RemedyEntry> entries;
  for (const RemedySpec& remedy : all_remedies()) {
    entries.push_back({std::string(remedy.name), std::string(remedy.title), remedy.cost,
                       RunKind::training, std::string(aspect_name(remedy.aspect)),
                       remedy.needs.pool, remedy.is_verifiable});
  }
  for (const InferenceRemedySpec& remedy : all_inference_remedies()) {
    entries.push_back({std::string(remedy.name), std::string(remedy.title), remedy.cost,
                       RunKind::inference, "", false, false});
  }
  return entries;
}

void sort_remedies(std::vector<Remedy>& remedies) {
  std::stable_sort(remedies.begin(), remedies.end(), [](const Remedy& a, const Remedy& b) {
    if (a.peak_allocated.has_value() != b.peak_allocated.has_value())
      return a.peak_allocated.has_value();
    if (a.at_least_bytes || b.at_least_bytes)
      return a.at_least_bytes.value_or(kUnknownBytes) < b.at_least_bytes.value_or(kUnknownBytes);
    return a.saving_bytes > b.saving_bytes;
  });
}

Result<Advice> advise(const Store& store, const std::vector<DeviceReplay>& replays,
                      const std::vector<std::vector<PhaseSpan>>& phases, std::string path,
                      const AdviceOptions& options) {
  const Result<std::size_t> chosen = choose_device(store, replays, path, options);
  if (!chosen) return chosen.error();
  const DeviceRecord& record = *store.devices()[chosen.value()];
  const DeviceReplay& replay = replays[chosen.value()];
  if (find_run_kind(store, record, phases[chosen.value()]) == RunKind::inference)
    return advise_inference(store, record, replay, std::move(path), options);
  WhatIfOptions validation;
  validation.device = record.device;
  Result<WhatIf> proven = make_whatif(store, replays, path, validation);
  if (!proven) return proven.error();
  const std::vector<PhaseSpan>& spans = phases[chosen.value()];
  const RunEnd end = complete_run(store, record, spans);
  Advice advice;
  advice.growth = find_growth(store, record, spans);
  AdvisedRun run(
      {store, record, spans, proven.value().devices.front(), advice.growth, end, options.batch});
  if (options.other) {
    const std::optional<std::size_t> index = find_device(*options.other->store, record.device);
    if (!index) {
      return Error{ErrorCode::bad_input,
                   "the other recording has no " + store.device_name(record.device), path,
                   "give a recording of the same program on the same device"};
    }
    const RunFacts other(*options.other->store, *options.other->store->devices()[*index],
                         (*options.other->phases)[*index]);
    if (!run.compare(other))
      advice.missing.emplace_back(
          "The two recordings do not make the same allocations at different sizes, so batches and "
          "sequences are predicted from the first recording alone.");
  }
  const Advisor advisor(run, replay);
  advice.path = std::move(path);
  advice.device = record.device;
  advice.device_name = store.device_name(record.device);
  advice.peak_allocated_bytes = replay.peak.allocated_bytes;
  advice.peak_reserved_bytes = replay.peak_reserved_bytes;
  advice.has_pool = store.facts().has_pool();
  if (end.completed)
    advice.completed = {advisor.allocated_bytes(), advisor.reserved_bytes(), end.completed->how};
  advice.partial = end.why_not;
  advice.baseline = advisor.baseline();
  advice.has_module_names = run.block_list().has_value() || !run.block_modules().empty();
  std::size_t done = 0;
  for (const RemedySpec& remedy : all_remedies()) {
    advice.remedies.push_back(study(advisor, {{&remedy}, std::nullopt, 1, 1}));
    if (options.progress) options.progress(++done, all_remedies().size());
  }
  for (const std::vector<std::string>& names : options.together) {
    const Result<Change> set = find_set(names);
    if (!set) return set.error();
    advice.remedies.push_back(study(advisor, set.value()));
  }
  sort_remedies(advice.remedies);
  if (options.fit_bytes) advice.fit = find_fit(advisor, *options.fit_bytes, options.sequence);
  for (std::string& sentence : missing_facts(advisor))
    advice.missing.push_back(std::move(sentence));
  return advice;
}

}  // namespace gpumemprof
