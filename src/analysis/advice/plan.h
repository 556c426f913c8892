// Plan: a set of remedies applied together, and what is known about each remedy by name.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "analysis/advice/advice.h"
#include "analysis/advice/remedies/rewrite.h"

namespace gpumemprof {

enum class RemedyId : std::uint8_t {
  checkpointing,
  autocast_bf16,
  pure_bf16,
  sgd,
  sgd_momentum,
  lion,
  adafactor,
  adam_8bit,
  foreach_off,
  fused,
  batch_x0_5,
  batch_x2,
  accumulate_x4,
  expandable_segments,
  // Beyond the names that every version has:
  micro_batch_x0_5,
  micro_batch_x0_25,
  micro_batch_x0_125,
  step_in_backward,
  chunked_loss,
  offload_activations,
  offload_optimizer,
  checkpointing_selective,
  autocast_fp16,
  sequence_x0_5,
  sequence_x2,
  zero_grad_to_none,
  zero_grad_early,
  empty_cache,
};
inline constexpr std::size_t kRemedyCount = 28;

// What is done to a run: combined remedies, and other batch sizes and sequence lengths.
struct Change {
  std::vector<RemedyId> remedies;
  // Which of each pass's blocks are checkpointed, by the order they run in, sorted; none: all.
  std::optional<std::vector<std::uint32_t>> blocks;
  double batch_factor = 1;
  double sequence_factor = 1;

  [[nodiscard]] bool has(RemedyId id) const;
  // Whether checkpointing applies to this block.
  [[nodiscard]] bool recomputes(std::uint32_t ordinal) const;
};

struct RemedyFacts {
  RemedyId id;
  std::string_view name;
  std::string_view title;
  std::string_view how;
  std::string_view how_trainer;
  // Half the width of the band, as a share of the peak.
  double band = 0;
  // What it costs besides time, for choosing the cheapest: 0 for the same result, more for other
  // numerics or other training.
  double cost = 0;
  RemedyCost costs = RemedyCost::free;  // as reported to the user
};

const std::vector<RemedyFacts>& all_remedies();
const RemedyFacts& facts_of(RemedyId id);
// By name; nullptr if there is none.
const RemedyFacts* find_remedy(std::string_view name);
// Whether both change the same thing, so that they cannot be used together.
bool excludes(RemedyId one, RemedyId other);

// Applies them in an order that lets each see what the others did.
void apply(Rewrite& rewrite, const Change& change, const std::vector<RepeatedBlock>& blocks);

}  // namespace gpumemprof
