#include "analysis/advice/remedies/precision/half_precision.h"

namespace gpumemprof {

bool is_fixed(const RunFacts& facts, const ForwardPass& pass, const Operation& operation,
              std::uint32_t place) {
  const std::uint64_t bytes = facts.bytes(pass.forward[place]);
  const std::uint64_t output = facts.bytes(pass.forward[operation.output]);
  if (place == operation.output) return false;
  switch (operation.kind) {
    case OpKind::pool:
      return bytes == 2 * output;
    case OpKind::follow:
    case OpKind::unknown:
      return bytes * 4 == output;
    case OpKind::fp32:
    case OpKind::softmax:
    case OpKind::loss:
      return bytes * 16 <= output;
    default:
      return bytes * 64 <= output;
  }
}

std::uint64_t doubtful_recurrent_bytes(const RunFacts& facts, const ForwardPass& pass) {
  std::uint64_t sum = 0;
  for (const Operation& operation : pass.operations) {
    if (!is_recurrent(facts.store(), operation.stack)) continue;
    for (std::uint32_t place = operation.first; place < operation.first + operation.count; ++place)
      if (facts.is_saved(pass, pass.forward[place])) sum += facts.bytes(pass.forward[place]) / 2;
  }
  return sum;
}

void fuse_attention(Rewrite& rewrite, const ForwardPass& pass, const Operation& operation) {
  const RunFacts& facts = rewrite.facts;
  const std::uint64_t scores = facts.scores_bytes(pass, operation);
  std::uint64_t dropped = 0;
  for (std::uint32_t place = operation.first; place + 1 < operation.first + operation.count;
       ++place) {
    TimelineRow* row = rewrite.find(pass.forward[place]);
    if (row == nullptr || !row->is_there()) continue;
    if (facts.is_saved(pass, pass.forward[place])) dropped += facts.bytes(pass.forward[place]);
    row->size_bytes = 0;
  }
  for (const std::uint32_t place : pass.backward) {
    TimelineRow* row = rewrite.find(place);
    if (row != nullptr && facts.bytes(place) == scores) row->size_bytes = 0;
  }
  // The kernel may be unavailable for other reasons.
  rewrite.doubtful_high_bytes += dropped;
}

}  // namespace gpumemprof
