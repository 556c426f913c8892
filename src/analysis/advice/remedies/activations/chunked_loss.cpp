// chunked_loss: the loss is computed over part of the tokens at a time, since the logits are often
// the peak.
#include <algorithm>

#include "analysis/advice/remedies/list.h"

namespace gpumemprof::remedies {
namespace {

// False if no loss over large logits is found.
bool chunk_loss(Rewrite& rewrite) {
  constexpr std::uint32_t kChunks = 8;
  const RunFacts& facts = rewrite.facts;
  bool has_loss = false;
  for (const ForwardPass& pass : facts.passes()) {
    std::uint64_t logits = 0;
    for (const Operation& operation : pass.operations) {
      if (operation.kind == OpKind::loss)
        logits = std::max(logits, facts.bytes(pass.forward[operation.output]));
    }
    constexpr std::uint64_t kLargeBytes = 1U << 20U;
    if (logits < kLargeBytes) continue;
    has_loss = true;
    for (const std::vector<std::uint32_t>* rows : {&pass.forward, &pass.backward}) {
      for (const std::uint32_t row : *rows) {
        TimelineRow* entry = rewrite.find(row);
        if (entry != nullptr && facts.bytes(row) == logits &&
            facts.source(row) != MemorySource::gradients)
          entry->size_bytes = (entry->size_bytes + kChunks - 1) / kChunks;
      }
    }
  }
  return has_loss;
}

std::optional<std::string> chunked_loss_obstacle(const AdvisedRun& run) {
  Rewrite trial(run.facts(), run.recorded());
  if (chunk_loss(trial)) return std::nullopt;
  return "The recording shows no loss over large logits.";
}

}  // namespace

RemedySpec chunked_loss() {
  return {
      .name = "chunked_loss",
      .title = "compute the loss over 8 parts of the tokens",
      .cost = RemedyCost::slower,
      .how =
          "for h, y in zip(hidden.chunk(8), labels.chunk(8)):\n"
          "    loss = loss + checkpoint(head_and_loss, h, y, use_reentrant=False)",
      .how_trainer = "TrainingArguments(use_liger_kernel=True)",
      .aspect = Aspect::loss,
      .needs = {.stacks = true},
      .band = 0.06,
      .is_estimated = true,
      .least = {.step = 0},
      .fit_cost = 8,
      .obstacle = chunked_loss_obstacle,
      .rewrite = [](const AdvisedRun&, const Change&, Rewrite& rewrite) { chunk_loss(rewrite); },
  };
}

}  // namespace gpumemprof::remedies
