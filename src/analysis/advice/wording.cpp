#include "analysis/advice/wording.h"

#include <algorithm>

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

namespace {

// Says so if one recording cannot show how memory grows with the length.
std::string sequence_wording(const Advisor& advisor) {
  if (advisor.facts().sequence_growth().is_known())
    return "How each allocation grows was measured by the other recording. ";
  const std::uint64_t square = advisor.sequence().attention_bytes;
  if (square > 0)
    return format_bytes(square) +
           " of attention's matrices are taken to grow with the square of the length, the rest in "
           "proportion; a recording at another length (--with) would settle it. ";
  return "What is made of a batch is taken to grow in proportion: no attention matrix is seen, but "
         "one that a line of the model's own makes cannot be told; a recording at another length "
         "(--with) would settle it. ";
}

std::string empty_cache_wording(const Advisor& advisor, const Remedy& remedy,
                                const Prediction& prediction) {
  const std::uint64_t before = advisor.recorded_segment_requests();
  const std::uint64_t more =
      prediction.segment_requests > before ? prediction.segment_requests - before : 0;
  const std::size_t steps = std::max<std::size_t>(advisor.facts().optimizer_steps().size(), 2) - 1;
  return "The program needs the same memory: this returns what is free between steps, for others "
         "to use. Reserved memory goes from " +
         format_bytes(advisor.reserved_bytes()) + " to " +
         format_bytes(remedy.peak_reserved ? remedy.peak_reserved->bytes : 0) +
         " at its peak, and about " + std::to_string(more / steps) +
         " segments must be asked for again in each step, which the GPU waits for.";
}

// What has to be said before the peaks are compared.
std::string opening_sentence(const Advisor& advisor, RemedyId id) {
  const std::string blocks = std::to_string(advisor.blocks_per_pass());
  switch (id) {
    case RemedyId::checkpointing:
      return blocks + " blocks are recomputed. ";
    case RemedyId::checkpointing_selective:
      return blocks + " blocks are recomputed but for products and attention. ";
    case RemedyId::sequence_x0_5:
    case RemedyId::sequence_x2:
      return sequence_wording(advisor);
    case RemedyId::zero_grad_to_none:
      return format_bytes(find_kept_gradients(advisor.facts()).zeroed_bytes) +
             " of gradients are zeroed in place and so are there in forward. ";
    case RemedyId::zero_grad_early:
      return format_bytes(find_kept_gradients(advisor.facts()).late_bytes) +
             " of gradients are dropped only after forward began. ";
    default:
      return {};
  }
}

}  // namespace

std::string why(const Advisor& advisor, const Change& change, const Remedy& remedy,
                const Prediction& prediction) {
  const PeakPicture& before = advisor.baseline();
  const PeakPicture& after = remedy.after;
  const auto least = static_cast<std::int64_t>(before.bytes / 200);
  std::string text;
  for (const RemedyId id : change.remedies) text += opening_sentence(advisor, id);
  const bool is_alone = change.remedies.size() == 1;
  if (is_alone && change.has(RemedyId::empty_cache))
    return empty_cache_wording(advisor, remedy, prediction);
  if (is_alone && change.has(RemedyId::expandable_segments) && remedy.peak_reserved) {
    return "Changes where memory lies, not what the program needs: reserved memory goes from " +
           format_bytes(advisor.reserved_bytes()) + " to " +
           format_bytes(remedy.peak_reserved->bytes) + ".";
  }
  if (remedy.saving_bytes < -least) {
    return text + "Takes more: the peak then lies in " + phase_wording(after.phase) + ", with " +
           describe_peak(after) + ".";
  }
  if (remedy.saving_bytes <= least) {
    return text + "The peak lies in " + phase_wording(before.phase) + ", with " +
           describe_peak(before) + "; this does not lower it.";
  }
  if (after.phase == before.phase) {
    return text + "The peak stays in " + phase_wording(before.phase) + ", then with " +
           describe_peak(after) + "; it had " + describe_peak(before) + ".";
  }
  return text + "The peak moves from " + phase_wording(before.phase) + " (" +
         describe_peak(before) + ") to " + phase_wording(after.phase) + " (" +
         describe_peak(after) + ").";
}

std::string why_partial(const Advisor& advisor) {
  return advisor.end().why_not +
         " Record a smaller batch to its end, and advise on that recording (--batch says how many "
         "samples it has).";
}

bool is_estimated(RemedyId id) {
  switch (id) {
    case RemedyId::autocast_bf16:
    case RemedyId::autocast_fp16:
    case RemedyId::pure_bf16:
    case RemedyId::checkpointing:
    case RemedyId::checkpointing_selective:
    case RemedyId::sequence_x0_5:
    case RemedyId::sequence_x2:
    case RemedyId::adafactor:
    case RemedyId::adam_8bit:
    case RemedyId::chunked_loss:
    case RemedyId::offload_activations:
    case RemedyId::offload_optimizer:
      return true;
    default:
      return false;
  }
}

std::vector<std::string> missing_facts(const Advisor& advisor) {
  std::vector<std::string> sentences;
  const RunFacts& facts = advisor.facts();
  if (!facts.has_stacks())
    sentences.emplace_back(
        "No stacks: which operation allocated what is not known. Record with gpumemprof run.");
  if (facts.passes().empty() || facts.optimizer_steps().empty())
    sentences.emplace_back(
        "No whole training step: record at least two, from before the model is built.");
  if (advisor.has_run_out() && !advisor.end().is_cut_short)
    sentences.emplace_back(
        "The run ran out of memory on the way and went on: what the request that failed led to is "
        "not known.");
  if (!advisor.has_times())
    sentences.emplace_back("No times: what recomputation costs here is a rule of thumb.");
  return sentences;
}

}  // namespace gpumemprof
