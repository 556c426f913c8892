// A loss computed on part of the tokens at a time: the logits are often the peak.
#include <algorithm>

#include "analysis/advice/remedies/rewrite.h"

namespace gpumemprof {

bool chunk_loss(Rewrite& rewrite, std::uint32_t chunks) {
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
          entry->size_bytes = (entry->size_bytes + chunks - 1) / chunks;
      }
    }
  }
  return has_loss;
}

}  // namespace gpumemprof
