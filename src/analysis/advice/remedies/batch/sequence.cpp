// sequence_x0.5, sequence_x2: sequences of another length.
#include "analysis/advice/remedies/list.h"
#include "base/bytes.h"

namespace gpumemprof::remedies {
namespace {

std::optional<std::string> sequence_obstacle(const AdvisedRun& run) {
  if (run.sequence().has_sequence) return std::nullopt;
  return "The recording shows no embedding, attention or recurrent layer, so it has no sequences.";
}

// Says so if one recording cannot show how memory grows with the length.
std::string sequence_introduction(const AdvisedRun& run) {
  if (run.facts().sequence_growth().is_known())
    return "How each allocation grows was measured with the other recording. ";
  const std::uint64_t square = run.sequence().attention_bytes;
  if (square > 0)
    return format_bytes(square) +
           " of attention matrices are assumed to grow with the square of the length, the rest in "
           "proportion; a recording at another length (--with) would show it. ";
  return "What depends on the batch is assumed to grow in proportion: no attention matrix was "
         "found, but one computed by the model's own code would not be recognized; a recording at "
         "another length (--with) would show it. ";
}

RemedySpec with_length(double factor) {
  return {
      .cost = RemedyCost::changes_training,
      .aspect = Aspect::sequence,
      .needs = {.stacks = true},
      .sequence_factor = factor,
      .is_estimated = true,
      .fit_cost = 60,
      .obstacle = sequence_obstacle,
      .introduction = sequence_introduction,
  };
}

}  // namespace

RemedySpec sequence_x0_5() {
  RemedySpec spec = with_length(0.5);
  spec.name = "sequence_x0.5";
  spec.title = "sequences of half the length";
  spec.how = "tokens = tokens[:, : tokens.shape[1] // 2]";
  spec.band = 0.06;
  spec.least.step = 0.25;  // attention scales with the square
  return spec;
}

RemedySpec sequence_x2() {
  RemedySpec spec = with_length(2);
  spec.name = "sequence_x2";
  spec.title = "sequences of twice the length";
  spec.how = "tokenizer(text, max_length=2 * max_length, truncation=True)";
  spec.band = 0.1;
  return spec;
}

}  // namespace gpumemprof::remedies
