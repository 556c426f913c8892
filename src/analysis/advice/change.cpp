#include "analysis/advice/change.h"

#include <algorithm>
#include <cmath>

#include "analysis/advice/remedies/batch/batch_scaling.h"
#include "analysis/advice/remedies/batch/sequence_scaling.h"
#include "analysis/advice/remedies/list.h"

namespace gpumemprof {
namespace {

// Many parts need a batch that can be split that way; two and four are assumed to work.
std::optional<std::string> batch_obstacle(std::optional<std::uint64_t> batch, double factor) {
  constexpr std::uint64_t kUsualParts = 4;
  const auto parts = static_cast<std::uint64_t>(std::lround(1 / factor));
  if (!batch && parts > kUsualParts)
    return "The recording does not say whether a batch can be split into " + std::to_string(parts) +
           "; state how many samples it has with --batch.";
  if (batch && *batch % parts != 0)
    return "A batch of " + std::to_string(*batch) + " cannot be split into " +
           std::to_string(parts) + " equal parts.";
  return std::nullopt;
}

// What the recording lacks.
std::optional<std::string> missing_need(const AdvisedRun& run, const RemedyNeeds& needs) {
  const RunFacts& facts = run.facts();
  if (needs.passes && facts.passes().empty())
    return "The recording shows no forward pass; record a few whole training steps with stacks.";
  if (needs.stacks && !facts.has_stacks())
    return "The recording has no stacks; record with gpumemprof run, or with "
           "_record_memory_history(stacks=\"python\").";
  if (needs.optimizer_steps && facts.optimizer_steps().empty())
    return "The recording has no complete optimizer step; record at least one.";
  if (needs.parameters && facts.parameters().empty())
    return "The recording does not show which tensors are parameters; start recording before the "
           "model is built.";
  if (needs.pool && run.rounding() == nullptr)
    return "CPU memory has no caching allocator, so it has no segments and no cache.";
  return std::nullopt;
}

// How uncertain a run is with another batch or other sequences: as the remedies that enlarge them.
double scaling_band(double RemedySpec::* factor) {
  double band = 0;
  for (const RemedySpec& remedy : all_remedies()) {
    if (remedy.*factor > 1) band = std::max(band, remedy.band);
  }
  return band;
}

}  // namespace

const RemedySpec* Change::per_block() const {
  const auto found = std::find_if(remedies.begin(), remedies.end(),
                                  [](const RemedySpec* remedy) { return remedy->is_per_block; });
  return found == remedies.end() ? nullptr : *found;
}

bool Change::has_block(std::uint32_t ordinal) const {
  return !blocks || std::binary_search(blocks->begin(), blocks->end(), ordinal);
}

bool excludes(const RemedySpec& one, const RemedySpec& other) { return one.aspect == other.aspect; }

std::optional<std::string> find_obstacle(const AdvisedRun& run, const RemedySpec& remedy) {
  std::optional<std::string> found;
  if (remedy.batch_factor < 1) found = batch_obstacle(run.batch(), remedy.batch_factor);
  if (!found) found = missing_need(run, remedy.needs);
  if (!found && remedy.obstacle != nullptr) found = remedy.obstacle(run);
  return found;
}

void apply(const AdvisedRun& run, const Change& change, Rewrite& rewrite) {
  std::vector<const RemedySpec*> in_order = change.remedies;
  std::stable_sort(in_order.begin(), in_order.end(),
                   [](const RemedySpec* a, const RemedySpec* b) { return a->aspect < b->aspect; });
  double batch = change.batch_factor;
  double sequence = change.sequence_factor;
  for (const RemedySpec* remedy : in_order) {
    if (remedy->rewrite != nullptr) remedy->rewrite(run, change, rewrite);
    batch *= remedy->batch_factor;
    sequence *= remedy->sequence_factor;
  }
  if (batch != 1) scale_batch(rewrite, batch);
  if (sequence != 1) scale_sequence(rewrite, sequence);
}

std::string code_of(const AdvisedRun& run, const Change& change, const RemedySpec& remedy) {
  return remedy.code == nullptr ? std::string(remedy.how) : remedy.code(run, change);
}

std::optional<Slowdown> find_slowdown(const AdvisedRun& run, const Change& change) {
  std::optional<Slowdown> sum;
  for (const RemedySpec* remedy : change.remedies) {
    if (remedy->slowdown == nullptr) continue;
    const std::optional<Slowdown> part = remedy->slowdown(run, change);
    if (!part) continue;
    const bool is_measured = part->is_measured && (!sum || sum->is_measured);
    sum = Slowdown{(sum ? sum->pct : 0) + part->pct, is_measured};
  }
  return sum;
}

double band_of(const AdvisedRun& run, const Change& change) {
  const RunFacts& facts = run.facts();
  double sum = 0;
  for (const RemedySpec* remedy : change.remedies) {
    // A second recording shows how each allocation grows.
    const bool is_sharp = (facts.growth().is_known() && remedy->batch_factor != 1) ||
                          (facts.sequence_growth().is_known() && remedy->sequence_factor != 1);
    sum += is_sharp ? remedy->band / 2 : remedy->band;
  }
  if (change.batch_factor != 1) sum += scaling_band(&RemedySpec::batch_factor);
  if (change.sequence_factor != 1) sum += scaling_band(&RemedySpec::sequence_factor);
  // A step completed from another one: any difference between them cannot be seen.
  constexpr double kCompleted = 0.02;
  constexpr double kCompletedInAnotherSize = 0.06;
  const std::optional<CompletedRun>& completed = run.end().completed;
  if (completed) sum += completed->is_scaled ? kCompletedInAnotherSize : kCompleted;
  if (!facts.has_stacks()) sum *= 3;
  if (run.first_event() > 0) sum *= 1.5;
  return std::min(sum, 0.9);
}

}  // namespace gpumemprof
