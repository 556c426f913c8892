// Larger and smaller batches, and gradients summed over several of them.
#include <algorithm>
#include <cmath>
#include <set>

#include "analysis/advice/rewrite.h"

namespace gpumemprof {
namespace {

std::uint64_t scaled(std::uint64_t bytes, double factor) {
  const auto result = static_cast<std::uint64_t>(std::llround(static_cast<double>(bytes) * factor));
  return std::max<std::uint64_t>(result, 1);
}

}  // namespace

// What a step makes of its batch grows with it; what it makes of parameters does not. In backward,
// memory of a parameter's size that no result of forward has is a part of a gradient.
void scale_batch(Rewrite& rewrite, double factor) {
  const RunFacts& facts = rewrite.facts;
  std::set<std::uint64_t> result_sizes;
  const auto scale = [&](std::uint32_t row) {
    TapeRow* entry = rewrite.find(row);
    if (entry != nullptr && entry->is_there()) entry->size_bytes = scaled(entry->size_bytes, factor);
  };
  for (std::uint32_t row = 0; row < facts.record().allocations.size(); ++row) {
    if (facts.source(row) == MemorySource::inputs) scale(row);
  }
  for (const ForwardPass& pass : facts.passes()) {
    for (const std::uint32_t row : pass.forward) {
      const MemorySource source = facts.source(row);
      if (source == MemorySource::workspace || source == MemorySource::gradients ||
          source == MemorySource::optimizer_state)
        continue;
      result_sizes.insert(facts.bytes(row));
      scale(row);
    }
    for (const std::uint32_t row : pass.backward) {
      const MemorySource source = facts.source(row);
      if (source == MemorySource::gradients || source == MemorySource::workspace) continue;
      if (facts.is_parameter_size(facts.bytes(row)) && !result_sizes.contains(facts.bytes(row)))
        continue;
      scale(row);
    }
  }
  for (TapeRow& row : rewrite.tape.rows) {
    const bool is_of_batch = row.origin == TapeRow::kInserted &&
                             (row.source == MemorySource::activations);
    if (is_of_batch && row.is_there()) row.size_bytes = scaled(row.size_bytes, factor);
  }
}

void accumulate(Rewrite& rewrite) {
  const RunFacts& facts = rewrite.facts;
  for (const ForwardPass& pass : facts.passes()) {
    for (const std::uint32_t row : pass.backward) {
      if (facts.source(row) != MemorySource::gradients) continue;
      TapeRow* gradient = rewrite.find(row);
      if (gradient == nullptr || !gradient->is_there() || gradient->birth == kTapeStart) continue;
      const std::uint32_t event = event_of(gradient->birth);
      const std::uint64_t bytes = gradient->size_bytes;
      gradient->birth = before_event(pass.first_event, event - pass.first_event);
      // The new part, added to what is there.
      rewrite.tape.insert(at_event(event), after_event(event + 1, 0), bytes,
                          MemorySource::temporaries);
    }
  }
}

}  // namespace gpumemprof
