#include "analysis/advice/inference/inference.h"

#include <algorithm>

#include "analysis/advice/inference/fit.h"
#include "analysis/advice/inference/inference_run.h"
#include "analysis/advice/inference/remedies/inference_remedy.h"
#include "analysis/phases/run_kind.h"

namespace gpumemprof {
namespace {

Remedy study(const InferenceRun& run, const InferenceRemedy& remedy, const Advice& advice) {
  Remedy result;
  result.name = remedy.name;
  result.title = remedy.title;
  result.cost = remedy.cost;
  result.how = remedy.how;
  result.provenance = Provenance::estimated;
  result.why = remedy.obstacle.empty() ? remedy.why : remedy.obstacle;
  if (!remedy.obstacle.empty()) return result;
  const std::vector<std::uint64_t> peaks = run.peaks({remedy.scale, remedy.least, remedy.most});
  if (!advice.partial.empty()) {
    result.at_least_bytes = std::min(peaks[0], peaks[1]);
    result.why = "Counted up to the point where the run ran out of memory; the rest needs more.";
    return result;
  }
  result.peak_allocated = inference_band(peaks[0], peaks[1], peaks[2]);
  result.after.phase = Phase::forward;
  result.saving_bytes = static_cast<std::int64_t>(advice.peak_allocated_bytes) -
                        static_cast<std::int64_t>(result.peak_allocated->bytes);
  return result;
}

// Remedies by name, combined into one; an Error if a name is not a remedy, or two cannot be
// combined.
Result<InferenceRemedy> find_set(const std::vector<InferenceRemedy>& remedies,
                                 const std::vector<std::string>& names) {
  std::vector<const InferenceRemedy*> set;
  for (const std::string& name : names) {
    const auto found =
        std::find_if(remedies.begin(), remedies.end(),
                     [&](const InferenceRemedy& remedy) { return remedy.name == name; });
    if (found == remedies.end())
      return Error{ErrorCode::usage, "unknown remedy '" + name + "' for inference", "",
                   "gpumemprof advise FILE lists them"};
    for (const InferenceRemedy* other : set) {
      if (!go_together(*other, *found))
        return Error{ErrorCode::usage, name + " and " + other->name + " cannot be combined", "",
                     "use only one of them"};
    }
    set.push_back(&*found);
  }
  InferenceRemedy all = combined(set);
  for (const InferenceRemedy* remedy : set) {
    const auto joined = [](std::string& text, std::string_view between, const std::string& more) {
      if (!text.empty() && !more.empty()) text += between;
      text += more;
    };
    joined(all.name, "+", remedy->name);
    joined(all.title, ", ", remedy->title);
    joined(all.why, " ", remedy->why);
    joined(all.how, "\n", remedy->how);
    if (all.obstacle.empty()) all.obstacle = remedy->obstacle;
  }
  return all;
}

}  // namespace

bool is_inference_cut_short(const Store& store, const DeviceRecord& record) {
  const Column<Action>& actions = record.events.action;
  std::size_t event = actions.size();
  while (event > 0 && actions[event - 1] != Action::oom) --event;
  if (event == 0) return false;
  const std::vector<ForwardCall> calls = find_forward_calls(store, record, code_kinds(store));
  return calls.empty() || calls.back().first_event < event;
}

Result<Advice> advise_inference(const Store& store, const DeviceRecord& record,
                                const DeviceReplay& replay, std::string path,
                                const AdviceOptions& options) {
  Advice advice;
  advice.path = std::move(path);
  advice.kind = RunKind::inference;
  advice.device = record.device;
  advice.device_name = store.device_name(record.device);
  advice.peak_allocated_bytes = replay.peak.allocated_bytes;
  advice.peak_reserved_bytes = replay.peak_reserved_bytes;
  advice.has_pool = store.facts().has_pool();
  advice.baseline.bytes = replay.peak.allocated_bytes;
  advice.baseline.phase = Phase::forward;
  advice.baseline.by_source = sources_at(
      record, record.labels,
      replay.peak_event == kNoEvent ? Moment::start() : Moment::after(replay.peak_event));
  if (is_inference_cut_short(store, record)) {
    advice.partial =
        "The run ran out of memory; how much more it would have needed is not recorded.";
  }
  const InferenceRun run(store, record);
  const std::vector<InferenceRemedy> remedies = study_inference_remedies(run);
  for (const InferenceRemedy& remedy : remedies)
    advice.remedies.push_back(study(run, remedy, advice));
  for (const std::vector<std::string>& names : options.together) {
    const Result<InferenceRemedy> set = find_set(remedies, names);
    if (!set) return set.error();
    advice.remedies.push_back(study(run, set.value(), advice));
  }
  sort_remedies(advice.remedies);
  if (options.fit_bytes && !advice.partial.empty()) {
    advice.fit = FitPlan{};
    advice.fit->limit_bytes = *options.fit_bytes;
    advice.fit->refusal = advice.partial;
  } else if (options.fit_bytes) {
    advice.fit = find_inference_fit(
        run, remedies,
        {*options.fit_bytes, advice.peak_allocated_bytes,
         advice.has_pool ? advice.peak_reserved_bytes : advice.peak_allocated_bytes,
         options.batch});
  }
  advice.missing.emplace_back("This run is inference, so these are the remedies for inference.");
  return advice;
}

}  // namespace gpumemprof
