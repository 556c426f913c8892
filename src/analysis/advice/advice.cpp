#include "analysis/advice/advice.h"

#include <algorithm>

#include "analysis/advice/advisor.h"
#include "analysis/advice/fit.h"
#include "analysis/advice/inference/inference.h"
#include "analysis/advice/inference/remedies/inference_remedy.h"
#include "analysis/advice/prepared_run.h"
#include "analysis/advice/remedies/list.h"
#include "analysis/advice/wording.h"
#include "analysis/overview/overview.h"
#include "analysis/phases/run_kind.h"

namespace gpumemprof {
namespace {

// The device with the highest peak, unless one is named.
Result<std::size_t> choose_device(const Store& store, const std::vector<DeviceReplay>& replays,
                                  const std::string& path, const AdviceOptions& options) {
  if (const Status known = check_device(store, path, options.device); !known) return known.error();
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

Error given_up() {
  return {ErrorCode::usage, "nobody waited for the advice any more", "", "ask again"};
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
  const RunKind kind = find_run_kind(store, record, phases[chosen.value()]);
  if (kind == RunKind::inference)
    return advise_inference(store, record, replay, std::move(path), options);
  const Result<std::unique_ptr<PreparedRun>> prepared = PreparedRun::make(
      {store, replays, phases, chosen.value(), path, options.batch, options.other});
  if (!prepared) return prepared.error();
  const PreparedRun& ready = *prepared.value();
  const AdvisedRun& run = ready.run();
  const Advisor& advisor = ready.advisor();
  const RunEnd& end = ready.end();
  Advice advice;
  advice.kind = kind;
  advice.growth = ready.growth();
  if (ready.is_other_different())
    advice.missing.emplace_back(
        "The two recordings do not make the same allocations at different sizes, so batches and "
        "sequences are predicted from the first recording alone.");
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
    if (options.is_given_up && options.is_given_up()) return given_up();
    advice.remedies.push_back(study(advisor, {{&remedy}, std::nullopt, 1, 1}));
    if (options.progress) options.progress(++done, all_remedies().size());
  }
  for (const std::vector<std::string>& names : options.together) {
    Result<Remedy> remedy = ready.predict(names);
    if (!remedy) return remedy.error();
    advice.remedies.push_back(std::move(remedy).value());
  }
  sort_remedies(advice.remedies);
  if (options.fit_bytes) advice.fit = find_fit(advisor, *options.fit_bytes, options.sequence);
  for (std::string& sentence : missing_facts(advisor))
    advice.missing.push_back(std::move(sentence));
  return advice;
}

}  // namespace gpumemprof
