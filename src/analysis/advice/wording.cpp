#include "analysis/advice/wording.h"

#include <algorithm>

#include "analysis/advice/remedies/remedy.h"
#include "base/bytes.h"

namespace gpumemprof {
namespace {

std::string phase_wording(Phase phase) {
  switch (phase) {
    case Phase::forward:
      return "forward";
    case Phase::backward:
      return "backward";
    case Phase::optimizer_step:
      return "the optimizer's step";
    case Phase::evaluation:
      return "evaluation";
    case Phase::other:
      break;
  }
  return "code outside forward, backward and step";
}

std::string source_wording(MemorySource source) {
  if (source == MemorySource::kv_cache) return "the KV cache";
  std::string name(memory_source_name(source));
  std::replace(name.begin(), name.end(), '_', ' ');
  return name == "unknown" ? "unknown origin" : name;
}

}  // namespace

std::string describe_peak(const PeakPicture& peak) {
  std::vector<MemorySource> sources(kMemorySources.begin(), kMemorySources.end());
  std::stable_sort(sources.begin(), sources.end(), [&](MemorySource a, MemorySource b) {
    return peak.by_source[a] > peak.by_source[b];
  });
  std::string text;
  for (std::size_t index = 0; index < 2; ++index) {
    const std::uint64_t bytes = peak.by_source[sources[index]];
    if (bytes == 0) break;
    text +=
        (index == 0 ? "" : " and ") + format_bytes(bytes) + " of " + source_wording(sources[index]);
  }
  return text;
}

std::string why(const Advisor& advisor, const Change& change, const Remedy& remedy,
                const Prediction& prediction) {
  const PeakPicture& before = advisor.baseline();
  const PeakPicture& after = remedy.after;
  const auto least = static_cast<std::int64_t>(before.bytes / 200);
  std::string text;
  for (const RemedySpec* part : change.remedies) {
    if (part->introduction != nullptr) text += part->introduction(advisor.run());
  }
  if (change.remedies.size() == 1 && change.remedies.front()->explanation != nullptr)
    return change.remedies.front()->explanation(advisor, prediction);
  if (remedy.saving_bytes < -least) {
    return text + "Needs more memory: the peak is then in " + phase_wording(after.phase) +
           ", with " + describe_peak(after) + ".";
  }
  if (remedy.saving_bytes <= least) {
    return text + "The peak is in " + phase_wording(before.phase) + ", with " +
           describe_peak(before) + "; this does not lower it.";
  }
  if (after.phase == before.phase) {
    return text + "The peak stays in " + phase_wording(before.phase) + ", now with " +
           describe_peak(after) + " instead of " + describe_peak(before) + ".";
  }
  return text + "The peak moves from " + phase_wording(before.phase) + " (" +
         describe_peak(before) + ") to " + phase_wording(after.phase) + " (" +
         describe_peak(after) + ").";
}

std::string why_partial(const Advisor& advisor) {
  return advisor.run().end().why_not +
         " Record a run with a smaller batch to its end, and run gpumemprof advise on that "
         "recording (with --batch, the number of samples in its batch).";
}

std::vector<std::string> missing_facts(const Advisor& advisor) {
  std::vector<std::string> sentences;
  const RunFacts& facts = advisor.run().facts();
  if (!facts.has_stacks())
    sentences.emplace_back(
        "No stacks were recorded, so which operation allocated what is not known: record with "
        "gpumemprof run.");
  if (facts.passes().empty() || facts.optimizer_steps().empty())
    sentences.emplace_back(
        "No complete training step was recorded: record at least two, starting before the model is "
        "built.");
  if (advisor.has_run_out() && !advisor.run().end().is_cut_short)
    sentences.emplace_back(
        "The run ran out of memory and continued: what it would have allocated if the request had "
        "succeeded is not known.");
  if (!facts.passes().empty() && !advisor.run().step_seconds())
    sentences.emplace_back("No times were recorded: the cost of recomputation is a rule of thumb.");
  return sentences;
}

}  // namespace gpumemprof
