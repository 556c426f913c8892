#include "analysis/advice/advice.h"

#include <algorithm>

#include "analysis/advice/advisor.h"
#include "analysis/advice/fit.h"
#include "analysis/advice/words.h"

namespace gpumemprof {
namespace {

Remedy study(const Advisor& advisor, const RemedyFacts& facts, std::uint64_t baseline_bytes) {
  Remedy remedy;
  remedy.name = facts.name;
  remedy.title = facts.title;
  remedy.how = facts.how;
  remedy.how_trainer = facts.how_trainer;
  if (const std::optional<std::string> obstacle = advisor.obstacle(facts.id)) {
    remedy.why = *obstacle;
    return remedy;
  }
  const Change change{{facts.id}, std::nullopt, 1, 1};
  const Result<Prediction> prediction = advisor.predict(change);
  if (!prediction) {
    remedy.why = prediction.error().message;
    return remedy;
  }
  remedy.peak_allocated = prediction.value().allocated;
  remedy.peak_reserved = prediction.value().reserved;
  remedy.after = prediction.value().at_peak;
  remedy.saving_bytes = static_cast<std::int64_t>(baseline_bytes) -
                        static_cast<std::int64_t>(prediction.value().allocated.bytes);
  remedy.provenance = is_estimated(facts.id) ? Provenance::estimated : Provenance::simulated;
  if (const std::optional<Slowdown> slowdown = advisor.slowdown(change)) {
    remedy.slowdown_pct = slowdown->pct;
    remedy.is_slowdown_measured = slowdown->is_measured;
  }
  remedy.why = why(advisor, facts.id, remedy, prediction.value());
  return remedy;
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

Result<Advice> advise(const Store& store, const std::vector<DeviceReplay>& replays,
                      const std::vector<std::vector<PhaseSpan>>& phases, std::string path,
                      const AdviceOptions& options) {
  const Result<std::size_t> chosen = choose_device(store, replays, path, options);
  if (!chosen) return chosen.error();
  const DeviceRecord& record = *store.devices()[chosen.value()];
  const DeviceReplay& replay = replays[chosen.value()];
  WhatIfOptions proof;
  proof.device = record.device;
  Result<WhatIf> proven = make_whatif(store, replays, path, proof);
  if (!proven) return proven.error();
  Advisor advisor(store, record, replay, phases[chosen.value()], proven.value().devices.front(),
                  options.batch);
  Advice advice;
  if (options.other) {
    const std::optional<std::size_t> index = find_device(*options.other->store, record.device);
    if (!index) {
      return Error{ErrorCode::bad_input,
                   "the other recording has no " + store.device_name(record.device), path,
                   "give a recording of the same program on the same device"};
    }
    const RunFacts other(*options.other->store, *options.other->store->devices()[*index],
                         (*options.other->phases)[*index]);
    if (!advisor.compare(other))
      advice.missing.emplace_back(
          "The two recordings do not make the same allocations in another size: batches and "
          "sequences are predicted from the first alone.");
  }
  advice.path = std::move(path);
  advice.device = record.device;
  advice.device_name = store.device_name(record.device);
  advice.peak_allocated_bytes = replay.peak.allocated_bytes;
  advice.peak_reserved_bytes = replay.peak_reserved_bytes;
  advice.baseline = advisor.baseline();
  std::size_t done = 0;
  for (const RemedyFacts& facts : all_remedies()) {
    advice.remedies.push_back(study(advisor, facts, advice.peak_allocated_bytes));
    if (options.progress) options.progress(++done, kRemedyCount);
  }
  std::stable_sort(advice.remedies.begin(), advice.remedies.end(),
                   [](const Remedy& a, const Remedy& b) {
                     if (a.peak_allocated.has_value() != b.peak_allocated.has_value())
                       return a.peak_allocated.has_value();
                     return a.saving_bytes > b.saving_bytes;
                   });
  if (options.fit_bytes) advice.fit = find_fit(advisor, *options.fit_bytes, options.sequence);
  for (std::string& sentence : missing_facts(advisor))
    advice.missing.push_back(std::move(sentence));
  return advice;
}

}  // namespace gpumemprof
