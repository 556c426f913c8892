// paged_adamw_8bit: Adam with 8-bit state in unified memory, which the driver moves to the host
// when the GPU runs short.
//
// Nothing recorded says how much of it is on the GPU at the peak, so the prediction has all of it
// there and the low end of the band none. Torch does not count unified memory at all.
#include "analysis/advice/remedies/list.h"
#include "analysis/advice/remedies/optimizer/optimizer_state.h"
#include "base/bytes.h"

namespace gpumemprof::remedies {
namespace {

// The moments of smaller parameters, and all scales, are ordinary memory.
constexpr std::uint64_t kSmallestPagedElements = 100'000;

std::uint64_t pageable_bytes(const RunFacts& facts) {
  constexpr std::uint64_t kMoments = 2;  // of one byte per element
  std::uint64_t sum = 0;
  for (const EightBitState& state : eight_bit_states(facts)) {
    if (state.elements >= kSmallestPagedElements) sum += kMoments * state.elements;
  }
  return sum;
}

void paged_adamw_8bit_rewrite(const AdvisedRun&, const Change&, Rewrite& changed) {
  drop_step_temporaries(changed);
  replace_states(changed, sizes_of(eight_bit_states(changed.facts)));
  changed.pageable_bytes += pageable_bytes(changed.facts);
}

std::string paged_adamw_8bit_introduction(const AdvisedRun& run) {
  const std::uint64_t bytes = pageable_bytes(run.facts());
  if (bytes == 0) return "All parameters are too small for paging: their state stays on the GPU. ";
  return format_bytes(bytes) +
         " of state is in unified memory and counted in full; when the GPU runs short of memory, "
         "the driver can move all of it to the host. ";
}

}  // namespace

RemedySpec paged_adamw_8bit() {
  return {
      .name = "paged_adamw_8bit",
      .title = "Adam with 8-bit state that can move to the host",
      .cost = RemedyCost::changes_training,
      .how =
          "import bitsandbytes as bnb\n"
          "optimizer = bnb.optim.PagedAdamW8bit(model.parameters(), lr=1e-4)",
      .how_trainer = "TrainingArguments(optim=\"paged_adamw_8bit\")",
      .aspect = Aspect::optimizer,
      .needs = {.optimizer_steps = true, .parameters = true},
      .band = 0.02,
      .is_estimated = true,
      .least = {.keeps_optimizer = false},
      .fit_cost = 55,
      .rewrite = paged_adamw_8bit_rewrite,
      .introduction = paged_adamw_8bit_introduction,
  };
}

}  // namespace gpumemprof::remedies
