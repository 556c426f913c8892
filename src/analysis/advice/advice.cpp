#include "analysis/advice/advice.h"

#include <algorithm>

#include "analysis/advice/advisor.h"
#include "analysis/advice/fit.h"
#include "analysis/advice/words.h"

namespace gpumemprof {
namespace {

// Of the article everybody reads: 20 to 30 % of a step. Only where the recording has no times.
constexpr double kCheckpointingRuleOfThumb = 25;

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
  const Result<Prediction> prediction = advisor.predict({facts.id});
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
  remedy.slowdown_pct = advisor.slowdown_pct(facts.id);
  remedy.is_slowdown_measured = remedy.slowdown_pct.has_value();
  if (!remedy.slowdown_pct && facts.id == RemedyId::checkpointing)
    remedy.slowdown_pct = kCheckpointingRuleOfThumb;
  remedy.why = why(advisor, facts.id, remedy);
  return remedy;
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
  const Advisor advisor(store, record, replay, phases[chosen.value()],
                        proven.value().devices.front(), options.batch);
  Advice advice;
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
  if (options.fit_bytes) advice.fit = find_fit(advisor, *options.fit_bytes);
  advice.missing = missing_facts(advisor);
  return advice;
}

}  // namespace gpumemprof
