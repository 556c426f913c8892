#include "analysis/advice/advice.h"

#include <algorithm>

#include "analysis/advice/advisor.h"
#include "analysis/advice/fit.h"
#include "analysis/advice/inference/inference.h"
#include "analysis/advice/remedies/activations/block_code.h"
#include "analysis/advice/wording.h"
#include "analysis/phases/run_kind.h"

namespace gpumemprof {
namespace {

// The least that remains of a step's own memory, and of the weights, under a remedy: lower bounds
// that hold whatever the unrecorded part of a step does.
struct LeastShares {
  double step = 1;
  double weights = 1;
  // False: optimizer memory and gradients may drop to nothing.
  bool keeps_optimizer = true;
};

LeastShares least_shares(RemedyId id) {
  switch (id) {
    case RemedyId::checkpointing:
    case RemedyId::checkpointing_selective:
    case RemedyId::offload_activations:
    case RemedyId::chunked_loss:
    case RemedyId::step_in_backward:
      return {0, 1};
    case RemedyId::autocast_bf16:
    case RemedyId::autocast_fp16:
    case RemedyId::batch_x0_5:
    case RemedyId::micro_batch_x0_5:
      return {0.5, 1};
    case RemedyId::pure_bf16:
      return {0.5, 0.5};
    case RemedyId::micro_batch_x0_25:
    case RemedyId::sequence_x0_5:  // attention scales with the square
      return {0.25, 1};
    case RemedyId::micro_batch_x0_125:
      return {0.125, 1};
    case RemedyId::sgd:
    case RemedyId::sgd_momentum:
    case RemedyId::lion:
    case RemedyId::adafactor:
    case RemedyId::adam_8bit:
    case RemedyId::foreach_off:
    case RemedyId::fused:
    case RemedyId::offload_optimizer:
    case RemedyId::zero_grad_to_none:
    case RemedyId::zero_grad_early:
      return {1, 1, false};
    default:
      return {};
  }
}

std::uint64_t least_bytes(const Advisor& advisor, const Change& change) {
  LeastShares least;
  for (const RemedyId id : change.remedies) {
    least.step *= least_shares(id).step;
    least.weights *= least_shares(id).weights;
    least.keeps_optimizer = least.keeps_optimizer && least_shares(id).keeps_optimizer;
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
                                       [](RemedyId id) { return is_estimated(id); });
  remedy.provenance = is_certain ? Provenance::simulated : Provenance::estimated;
  if (advisor.is_partial()) {
    remedy.at_least_bytes = least_bytes(advisor, change);
    remedy.provenance = Provenance::estimated;
    remedy.why = "Counted up to where the run ran out of memory: the whole step takes more.";
    return;
  }
  remedy.peak_allocated = prediction.value().allocated;
  remedy.peak_reserved = prediction.value().reserved;
  remedy.after = prediction.value().at_peak;
  remedy.saving_bytes = static_cast<std::int64_t>(advisor.allocated_bytes()) -
                        static_cast<std::int64_t>(prediction.value().allocated.bytes);
  if (const std::optional<Slowdown> slowdown = advisor.slowdown(change)) {
    remedy.slowdown_pct = slowdown->pct;
    remedy.is_slowdown_measured = slowdown->is_measured;
  }
  remedy.why = why(advisor, change, remedy, prediction.value());
}

// For one remedy, or for several together: then the first that cannot be predicted decides.
Remedy study(const Advisor& advisor, const std::vector<const RemedyFacts*>& remedies) {
  Remedy remedy;
  Change change;
  for (const RemedyFacts* facts : remedies) change.remedies.push_back(facts->id);
  for (const RemedyFacts* facts : remedies) {
    const auto joined = [](std::string& text, std::string_view between, std::string_view more) {
      if (!text.empty() && !more.empty()) text += between;
      text += more;
    };
    joined(remedy.name, "+", facts->name);
    joined(remedy.title, ", ", facts->title);
    joined(remedy.how, "\n", code_of(advisor, change, facts->id));
    joined(remedy.how_trainer, "\n", facts->how_trainer);
    remedy.cost = std::max(remedy.cost, facts->costs);
  }
  for (const RemedyFacts* facts : remedies) {
    if (const std::optional<std::string> obstacle = advisor.obstacle(facts->id)) {
      remedy.why = *obstacle;
      return remedy;
    }
  }
  predict(advisor, change, remedy);
  return remedy;
}

// The remedies of one set; an Error if a name is not a remedy, or two cannot be combined.
Result<std::vector<const RemedyFacts*>> find_set(const std::vector<std::string>& names) {
  std::vector<const RemedyFacts*> set;
  for (const std::string& name : names) {
    const RemedyFacts* facts = find_remedy(name);
    if (facts == nullptr)
      return Error{ErrorCode::usage, "there is no remedy '" + name + "'", "",
                   "gpumemprof advise FILE lists them"};
    for (const RemedyFacts* other : set) {
      if (excludes(facts->id, other->id))
        return Error{ErrorCode::usage,
                     name + " and " + std::string(other->name) + " do not go together", "",
                     "name one of them"};
    }
    set.push_back(facts);
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
  WhatIfOptions proof;
  proof.device = record.device;
  Result<WhatIf> proven = make_whatif(store, replays, path, proof);
  if (!proven) return proven.error();
  const std::vector<PhaseSpan>& spans = phases[chosen.value()];
  const RunEnd end = complete_run(store, record, spans);
  Advice advice;
  advice.growth = find_growth(store, record, spans);
  Advisor advisor({store, record, replay, spans, proven.value().devices.front(), advice.growth, end,
                   options.batch});
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
  advice.has_pool = store.facts().has_pool();
  if (end.completed)
    advice.completed = {advisor.allocated_bytes(), advisor.reserved_bytes(), end.completed->how};
  advice.partial = end.why_not;
  advice.baseline = advisor.baseline();
  advice.has_module_names = advisor.block_list().has_value() || !advisor.block_modules().empty();
  std::size_t done = 0;
  for (const RemedyFacts& facts : all_remedies()) {
    advice.remedies.push_back(study(advisor, {&facts}));
    if (options.progress) options.progress(++done, all_remedies().size());
  }
  for (const std::vector<std::string>& names : options.together) {
    const Result<std::vector<const RemedyFacts*>> set = find_set(names);
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
