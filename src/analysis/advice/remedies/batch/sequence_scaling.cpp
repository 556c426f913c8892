#include "analysis/advice/remedies/batch/sequence_scaling.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "analysis/advice/run/sequence_facts.h"

namespace gpumemprof {
namespace {

std::uint64_t stretched(std::uint64_t bytes, double factor) {
  return static_cast<std::uint64_t>(
      std::llround(std::max(static_cast<double>(bytes) * factor, 1.0)));
}

}  // namespace

void scale_sequence(Rewrite& rewrite, double factor) {
  const RunFacts& facts = rewrite.facts;
  const SequenceGrowth& growth = facts.sequence_growth();
  const SequenceFacts sequence = find_sequence(facts);
  std::set<std::uint64_t> result_sizes;
  const auto scale = [&](std::uint32_t row, double exponent) {
    TimelineRow* entry = rewrite.find(row);
    if (entry == nullptr || !entry->is_there() || exponent == 0) return;
    entry->size_bytes = stretched(entry->size_bytes, std::pow(factor, exponent));
  };
  for (std::uint32_t row = 0; row < facts.record().allocations.size(); ++row) {
    if (facts.source(row) == MemorySource::inputs) scale(row, 1);
  }
  for (const ForwardPass& pass : facts.passes()) {
    const bool knows_forward = growth.forward.size() == pass.forward.size();
    std::set<std::uint64_t> linear_sizes;
    for (std::size_t place = 0; place < pass.forward.size(); ++place) {
      const std::uint32_t row = pass.forward[place];
      if (facts.source(row) == MemorySource::gradients) continue;
      result_sizes.insert(facts.bytes(row));
      if (sequence.is_square[row] == 0) linear_sizes.insert(facts.bytes(row));
      scale(row, knows_forward ? growth.forward[place] : sequence.is_square[row] != 0 ? 2 : 1);
    }
    const bool knows_backward = growth.backward.size() == pass.backward.size();
    for (std::size_t place = 0; place < pass.backward.size(); ++place) {
      const std::uint32_t row = pass.backward[place];
      const std::uint64_t bytes = facts.bytes(row);
      if (facts.source(row) == MemorySource::gradients) continue;
      const bool is_of_parameter = facts.is_parameter_size(bytes) && !result_sizes.contains(bytes);
      const bool is_square = sequence.square_sizes.contains(bytes) && !linear_sizes.contains(bytes);
      scale(row, knows_backward ? growth.backward[place] : is_of_parameter ? 0 : is_square ? 2 : 1);
    }
  }
  for (TimelineRow& row : rewrite.timeline.rows) {
    const bool is_of_tokens =
        row.origin == TimelineRow::kInserted && row.source == MemorySource::activations;
    if (is_of_tokens && row.is_there()) row.size_bytes = stretched(row.size_bytes, factor);
  }
}

}  // namespace gpumemprof
