// Why a remedy cannot be predicted from a recording, or would by its nature change nothing.
#include "analysis/advice/advisor.h"
#include "analysis/code/code_kind.h"

namespace gpumemprof {
namespace {

bool needs_passes(RemedyId id) { return id != RemedyId::expandable_segments; }

bool is_of_sequence(RemedyId id) {
  return id == RemedyId::sequence_x0_5 || id == RemedyId::sequence_x2;
}

bool is_autocast(RemedyId id) {
  return id == RemedyId::autocast_bf16 || id == RemedyId::autocast_fp16;
}

bool is_checkpointing(RemedyId id) {
  return id == RemedyId::checkpointing || id == RemedyId::checkpointing_selective;
}

bool needs_stacks(RemedyId id) {
  return is_checkpointing(id) || is_autocast(id) || is_of_sequence(id) ||
         id == RemedyId::chunked_loss;
}

bool is_of_optimizer(RemedyId id) {
  switch (id) {
    case RemedyId::sgd:
    case RemedyId::sgd_momentum:
    case RemedyId::lion:
    case RemedyId::adafactor:
    case RemedyId::adam_8bit:
    case RemedyId::foreach_off:
    case RemedyId::fused:
    case RemedyId::step_in_backward:
    case RemedyId::offload_optimizer:
      return true;
    default:
      return false;
  }
}

bool is_of_step(RemedyId id) {
  return is_of_optimizer(id) || id == RemedyId::zero_grad_to_none ||
         id == RemedyId::zero_grad_early || id == RemedyId::empty_cache;
}

// How many parts a remedy splits the batch into; 0: it does not.
std::uint64_t parts_of(RemedyId id) {
  switch (id) {
    case RemedyId::micro_batch_x0_5:
    case RemedyId::batch_x0_5:
      return 2;
    case RemedyId::micro_batch_x0_25:
      return 4;
    case RemedyId::micro_batch_x0_125:
      return 8;
    default:
      return 0;
  }
}

}  // namespace

// Half-precision copies of weights, made in forward: half a parameter's size, at a product.
bool Advisor::is_autocast_already() const {
  std::size_t products = 0;
  std::size_t copies = 0;
  for (const ForwardPass& pass : facts_.passes()) {
    for (const Operation& operation : pass.operations) {
      if (operation.kind != OpKind::matmul) continue;
      ++products;
      const std::uint64_t bytes = facts_.bytes(pass.forward[operation.first]);
      const bool is_copy = operation.count > 1 && facts_.is_parameter_size(2 * bytes);
      copies += is_copy ? 1 : 0;
    }
  }
  return products > 0 && 3 * copies > products;
}

bool Advisor::is_checkpointed_already() const {
  const std::vector<CodeKind> kinds = code_kinds(store_);
  for (const ForwardPass& pass : facts_.passes()) {
    for (const std::uint32_t row : pass.backward) {
      const StackId stack = record_.allocations.stack[row];
      if (!stack.is_none() && kinds[stack.index] == CodeKind::recompute) return true;
    }
  }
  return false;
}

// Many parts need a batch that can be split that way; two and four are assumed to work.
std::optional<std::string> Advisor::batch_obstacle(std::uint64_t parts) const {
  constexpr std::uint64_t kUsualParts = 4;
  if (!batch_ && parts > kUsualParts)
    return "Whether a batch can be cut into " + std::to_string(parts) +
           " is not recorded; say how many samples it has with --batch.";
  if (batch_ && *batch_ % parts != 0)
    return "A batch of " + std::to_string(*batch_) + " cannot be cut into " +
           std::to_string(parts) + " equal parts.";
  return std::nullopt;
}

std::optional<std::string> Advisor::gradient_obstacle(RemedyId id) const {
  const KeptGradients kept = find_kept_gradients(facts_);
  if (id == RemedyId::zero_grad_to_none && kept.zeroed_bytes == 0)
    return "No gradient is zeroed in place: none outlives its step and the next forward.";
  if (id == RemedyId::zero_grad_early && kept.late_bytes == 0) {
    return kept.zeroed_bytes > 0 ? "Gradients are zeroed in place: see zero_grad_to_none."
                                 : "Gradients are gone before the next forward begins already.";
  }
  return std::nullopt;
}

// What the model itself lacks, or already has.
std::optional<std::string> Advisor::model_obstacle(RemedyId id) const {
  if (is_checkpointing(id) && is_checkpointed_already())
    return "The run recomputes activations in backward already.";
  if (is_checkpointing(id) && blocks_.empty())
    return "No line of the model calls modules again and again, so there are no blocks to "
           "checkpoint by.";
  if (id == RemedyId::checkpointing_selective && facts_.last_whole_pass() == nullptr)
    return "Which lines of the model make products is told by backward, which the recording does "
           "not "
           "reach.";
  if (is_autocast(id) && is_autocast_already()) return "The run uses autocast already.";
  if (is_of_sequence(id) && !sequence_.has_sequence)
    return "No embedding, attention or recurrent layer is seen in the recording, so it has no "
           "sequences.";
  if (id == RemedyId::chunked_loss) {
    Rewrite trial(facts_, recorded_);
    if (!chunk_loss(trial, 8)) return "No loss over large logits is seen in the recording.";
  }
  return std::nullopt;
}

std::optional<std::string> Advisor::obstacle(RemedyId id) const {
  if (const std::uint64_t parts = parts_of(id); parts > 0) {
    if (const auto found = batch_obstacle(parts)) return found;
  }
  if (needs_passes(id) && facts_.passes().empty())
    return "The recording shows no forward pass; record a few whole training steps with stacks.";
  if (needs_stacks(id) && !facts_.has_stacks())
    return "The recording has no stacks; record with gpumemprof run, or with "
           "_record_memory_history(stacks=\"python\").";
  if (is_of_step(id) && facts_.optimizer_steps().empty())
    return "The recording holds no optimizer step; record one to its end.";
  if (is_of_optimizer(id) && facts_.parameters().empty())
    return "The recording does not tell parameters; record from before the model is built.";
  if (id == RemedyId::zero_grad_to_none || id == RemedyId::zero_grad_early)
    return gradient_obstacle(id);
  if (id == RemedyId::expandable_segments && rounding() == nullptr)
    return "The CPU's memory has no segments.";
  if (id == RemedyId::empty_cache && rounding() == nullptr) return "The CPU's memory has no cache.";
  if (id == RemedyId::expandable_segments && store_.settings().expandable_segments)
    return "The run uses expandable segments already.";
  return model_obstacle(id);
}

}  // namespace gpumemprof
