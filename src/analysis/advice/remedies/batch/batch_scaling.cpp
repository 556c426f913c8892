#include "analysis/advice/remedies/batch/batch_scaling.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace gpumemprof {
namespace {

std::uint64_t scaled(std::uint64_t bytes, double factor) {
  const double result = std::max(static_cast<double>(bytes) * factor, 1.0);
  return static_cast<std::uint64_t>(std::llround(result));
}

// Backward memory that has neither a result's size nor a parameter's may derive from either (a
// layer's weights packed together, say). It is assumed to grow; the band has room for the largest
// that does not.
void doubt_growth(Rewrite& rewrite, std::uint64_t bytes, double factor) {
  const std::uint64_t change = scaled(bytes, std::abs(factor - 1));
  if (bytes == 0) return;
  std::uint64_t& doubtful = factor < 1 ? rewrite.doubtful_high_bytes : rewrite.doubtful_low_bytes;
  doubtful = std::max(doubtful, change);
}

}  // namespace

// What a step derives from its batch grows with it; what it derives from parameters does not. In
// backward, memory of a parameter's size that matches no forward result is part of a gradient. If a
// second recording shows how each allocation grows, that decides.
void scale_batch(Rewrite& rewrite, double factor) {
  const RunFacts& facts = rewrite.facts;
  const BatchGrowth& growth = facts.growth();
  std::set<std::uint64_t> result_sizes;
  const auto scale = [&](std::uint32_t row, double grows) {
    TimelineRow* entry = rewrite.find(row);
    if (entry == nullptr || !entry->is_there()) return;
    entry->size_bytes = scaled(entry->size_bytes, 1 + grows * (factor - 1));
  };
  for (std::uint32_t row = 0; row < facts.record().allocations.size(); ++row) {
    if (facts.source(row) == MemorySource::inputs) scale(row, 1);
  }
  for (const ForwardPass& pass : facts.passes()) {
    const bool knows_forward = growth.forward.size() == pass.forward.size();
    for (std::size_t place = 0; place < pass.forward.size(); ++place) {
      const std::uint32_t row = pass.forward[place];
      if (facts.source(row) == MemorySource::gradients) continue;
      if (!facts.may_be_weights(pass, place)) result_sizes.insert(facts.bytes(row));
      scale(row, knows_forward ? growth.forward[place] : 1);
    }
    const bool knows_backward = growth.backward.size() == pass.backward.size();
    std::uint64_t largest_unexplained = 0;
    for (std::size_t place = 0; place < pass.backward.size(); ++place) {
      const std::uint32_t row = pass.backward[place];
      if (facts.source(row) == MemorySource::gradients) continue;
      const bool is_of_parameter =
          facts.is_parameter_size(facts.bytes(row)) && !result_sizes.contains(facts.bytes(row));
      scale(row, knows_backward ? growth.backward[place] : is_of_parameter ? 0 : 1);
      const bool is_explained =
          knows_backward || is_of_parameter || result_sizes.contains(facts.bytes(row));
      if (!is_explained) largest_unexplained = std::max(largest_unexplained, facts.bytes(row));
    }
    doubt_growth(rewrite, largest_unexplained, factor);
  }
  for (TimelineRow& row : rewrite.timeline.rows) {
    const bool is_of_batch =
        row.origin == TimelineRow::kInserted && row.source == MemorySource::activations;
    if (is_of_batch && row.is_there()) row.size_bytes = scaled(row.size_bytes, factor);
  }
}

void accumulate_gradients(Rewrite& rewrite) {
  const RunFacts& facts = rewrite.facts;
  for (const ForwardPass& pass : facts.passes()) {
    for (const std::uint32_t row : pass.backward) {
      if (facts.source(row) != MemorySource::gradients) continue;
      TimelineRow* gradient = rewrite.find(row);
      if (gradient == nullptr || !gradient->is_there() || gradient->birth == kTimelineStart)
        continue;
      const std::uint32_t event = event_of(gradient->birth);
      const std::uint64_t bytes = gradient->size_bytes;
      gradient->birth = before_event(pass.first_event, event - pass.first_event);
      // The new part, added to the existing gradient.
      rewrite.timeline.insert(at_event(event), after_event(event + 1, 0), bytes,
                              MemorySource::temporaries);
    }
  }
}

}  // namespace gpumemprof
