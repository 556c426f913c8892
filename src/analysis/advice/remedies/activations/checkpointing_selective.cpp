// checkpointing_selective: blocks are recomputed except for matrix products and attention, which
// are expensive to compute again.
#include "analysis/advice/remedies/activations/block_code.h"
#include "analysis/advice/remedies/activations/recomputation.h"
#include "analysis/advice/remedies/list.h"

namespace gpumemprof::remedies {
namespace {

#define GPUMEMPROF_SELECTIVE_CONTEXT                                          \
  "from torch.utils.checkpoint import create_selective_checkpoint_contexts\n" \
  "aten = torch.ops.aten\n"                                                   \
  "kept = [aten.mm.default, aten.addmm.default, aten.bmm.default,\n"          \
  "        aten.convolution.default,\n"                                       \
  "        aten._scaled_dot_product_flash_attention.default,\n"               \
  "        aten._scaled_dot_product_efficient_attention.default]\n"           \
  "context = partial(create_selective_checkpoint_contexts, kept)\n"

constexpr std::string_view kSelectiveContext = GPUMEMPROF_SELECTIVE_CONTEXT;
constexpr std::string_view kSelectiveCode =
    "from functools import partial\n" GPUMEMPROF_SELECTIVE_CONTEXT
    "for block in self.blocks:\n"
    "    x = checkpoint(block, x, use_reentrant=False, context_fn=context)";

#undef GPUMEMPROF_SELECTIVE_CONTEXT

std::optional<std::string> checkpointing_selective_obstacle(const AdvisedRun& run) {
  if (const auto found = checkpointing().obstacle(run)) return found;
  if (run.facts().last_whole_pass() == nullptr)
    return "Which lines of the model compute matrix products is known only from backward, which "
           "the recording does not reach.";
  return std::nullopt;
}

}  // namespace

RemedySpec checkpointing_selective() {
  return {
      .name = "checkpointing_selective",
      .title = "checkpoint every block, but keep matrix products and attention",
      .cost = RemedyCost::slower,
      .how = kSelectiveCode,
      .aspect = Aspect::activations,
      .needs = {.stacks = true},
      .band = 0.1,
      .is_estimated = true,
      .least = {.step = 0},
      .fit_cost = 1,
      .is_verifiable = true,
      .obstacle = checkpointing_selective_obstacle,
      .rewrite = [](const AdvisedRun& run, const Change&,
                    Rewrite& rewrite) { checkpoint_blocks(rewrite, run.blocks(), Kept::products); },
      .code =
          [](const AdvisedRun& run, const Change& change) {
            return checkpointing_code(run, change, kSelectiveContext, kSelectiveCode);
          },
      .introduction =
          [](const AdvisedRun& run) {
            return std::to_string(run.blocks_per_pass()) +
                   " blocks are recomputed, except for matrix products and attention. ";
          },
  };
}

}  // namespace gpumemprof::remedies
