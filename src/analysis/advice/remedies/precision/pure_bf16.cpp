// pure_bf16: the model is bf16 throughout: weights, gradients and optimizer state too.
#include <algorithm>
#include <set>

#include "analysis/advice/remedies/list.h"
#include "analysis/advice/remedies/precision/half_precision.h"

namespace gpumemprof::remedies {
namespace {

// A norm implemented in the model's own code: the squares, which are freed at once, with their
// small mean, then the scaled result and its product with the weights, both saved. Such code
// converts its input to fp32 first, which leaves no trace in a run that is fp32 throughout.
bool is_written_norm(const RunFacts& facts, const ForwardPass& pass, std::size_t index) {
  if (index + 2 >= pass.operations.size()) return false;
  const Operation& squares = pass.operations[index];
  const Operation& scaled = pass.operations[index + 1];
  const Operation& weighted = pass.operations[index + 2];
  const StackTrie& stacks = facts.store().stacks();
  for (const Operation* operation : {&squares, &scaled, &weighted}) {
    if (operation->kind != OpKind::unknown || operation->stack.is_none()) return false;
    if (stacks.caller(operation->stack) != stacks.caller(squares.stack)) return false;
    if (facts.bytes(pass.forward[operation->output]) != facts.bytes(pass.forward[squares.output]))
      return false;
  }
  const bool has_means = squares.count > 1 && scaled.count > 1;
  return has_means && !facts.is_saved(pass, pass.forward[squares.output]) &&
         facts.is_saved(pass, pass.forward[scaled.output]);
}

// The same on one line: squares, means, roots and the scaled result, then the weights on the next
// line or in the calling function.
bool is_norm_on_one_line(const RunFacts& facts, const ForwardPass& pass, std::size_t index) {
  if (index + 1 >= pass.operations.size()) return false;
  const Operation& norm = pass.operations[index];
  const Operation& weighted = pass.operations[index + 1];
  if (norm.kind != OpKind::unknown || weighted.kind != OpKind::unknown) return false;
  if (norm.stack.is_none() || weighted.stack.is_none() || norm.count < 3) return false;
  const StackTrie& stacks = facts.store().stacks();
  const StackId caller = stacks.caller(norm.stack);
  if (caller != stacks.caller(weighted.stack) && caller != weighted.stack) return false;
  const std::uint32_t squares = pass.forward[norm.first];
  const std::uint32_t scaled = pass.forward[norm.output];
  const std::uint64_t bytes = facts.bytes(squares);
  if (norm.output == norm.first || facts.bytes(scaled) != bytes) return false;
  if (facts.bytes(pass.forward[weighted.output]) != bytes) return false;
  constexpr std::uint64_t kNarrowest = 16;  // elements per mean
  const bool has_means = kNarrowest * facts.bytes(pass.forward[norm.first + 1]) <= bytes;
  return has_means && !facts.is_saved(pass, squares) && facts.is_saved(pass, scaled);
}

// The fp32 copy of the input and the squares stay fp32; the scaled result is computed in fp32 and
// converted back.
void keep_norm_fp32(Rewrite& rewrite, std::uint32_t squares, std::uint32_t scaled) {
  const RunFacts& facts = rewrite.facts;
  const std::uint32_t end = facts.death(scaled);
  const std::uint64_t bytes = facts.bytes(squares);
  rewrite.timeline.insert(before_event(facts.birth(squares), 0),
                          end == kNoEvent ? kTimelineEnd : at_event(end), bytes,
                          MemorySource::activations);
  rewrite.timeline.insert(before_event(facts.birth(scaled), 0), after_event(facts.birth(scaled), 0),
                          bytes, MemorySource::temporaries);
}

// The copy is saved for backward instead of the norm's input, which is then freed when the program
// drops it: about after the next sum.
void drop_input_of_norm(Rewrite& rewrite, const ForwardPass& pass, std::size_t index) {
  if (index == 0) return;
  constexpr std::uint32_t kDropAfter = 12;  // allocations
  const RunFacts& facts = rewrite.facts;
  const Operation& norm = pass.operations[index];
  const std::uint32_t input = pass.forward[pass.operations[index - 1].output];
  TimelineRow* entry = rewrite.find(input);
  const bool is_input = facts.bytes(input) == facts.bytes(pass.forward[norm.first]);
  if (entry == nullptr || !is_input || !facts.is_saved(pass, input)) return;
  const std::uint32_t user = norm.first + kDropAfter;
  const TimelineKey key = user < pass.forward.size()
                              ? after_event(facts.birth(pass.forward[user]), 1)
                              : before_event(pass.backward_first, 1);
  if (key < entry->death) entry->die_at(key);
}

void use_pure_bf16(Rewrite& rewrite) {
  const RunFacts& facts = rewrite.facts;
  const auto halve = [&](std::uint32_t row) {
    TimelineRow* entry = rewrite.find(row);
    if (entry != nullptr && entry->is_there()) entry->size_bytes = (entry->size_bytes + 1) / 2;
  };
  std::vector<char> is_in_pass(facts.record().allocations.size(), 0);
  bool has_embedding = false;
  for (const ForwardPass& pass : facts.passes()) {
    std::set<std::uint64_t> fp32_sizes;  // of losses and of attention without a fused kernel
    std::uint64_t norms_bytes = 0;
    std::uint64_t softmax_bytes = 0;
    for (std::size_t index = 0; index < pass.operations.size(); ++index) {
      const Operation& operation = pass.operations[index];
      has_embedding = has_embedding || operation.kind == OpKind::embedding;
      if (is_written_norm(facts, pass, index)) {
        keep_norm_fp32(rewrite, pass.forward[operation.output],
                       pass.forward[pass.operations[index + 1].output]);
        drop_input_of_norm(rewrite, pass, index);
      } else if (is_norm_on_one_line(facts, pass, index)) {
        // Most such code computes in fp32; a run that is fp32 throughout does not show it.
        keep_norm_fp32(rewrite, pass.forward[operation.first], pass.forward[operation.output]);
        drop_input_of_norm(rewrite, pass, index);
        norms_bytes += facts.bytes(pass.forward[operation.first]);
      }
      const bool is_loss =
          operation.kind == OpKind::loss && is_upcasting_loss(facts.store(), operation.stack);
      // Without a fused kernel torch computes attention in fp32 and converts the result back.
      const std::uint64_t scores = facts.scores_bytes(pass, operation);
      const bool is_cpu = facts.store().facts().kind() == DeviceKind::cpu;
      if (scores > 0 && !is_cpu) fuse_attention(rewrite, pass, operation);
      const bool is_written_out = is_cpu && facts.is_attention_written_out(pass, operation);
      if (is_written_out)
        fp32_sizes.insert(scores > 0 ? scores : facts.bytes(pass.forward[operation.output]));
      // The library computes softmax in fp32 in most of its models; an fp32 run does not show it.
      const bool is_softmax =
          operation.kind == OpKind::softmax && is_of_transformers(facts.store(), operation.stack);
      const std::uint32_t result = pass.forward[operation.output];
      if (is_softmax && facts.is_saved(pass, result)) softmax_bytes += facts.bytes(result);
      const bool is_fp32 = is_loss || is_written_out || is_softmax;
      for (std::uint32_t place = operation.first; place < operation.first + operation.count;
           ++place) {
        const std::uint32_t row = pass.forward[place];
        is_in_pass[row] = 1;
        if (facts.source(row) == MemorySource::workspace) continue;
        if (!is_fp32 && !is_fixed(facts, pass, operation, place)) halve(row);
      }
      if (!is_loss) continue;
      const std::uint32_t event = facts.birth(pass.forward[operation.output]);
      const std::uint64_t loss_bytes = facts.bytes(pass.forward[operation.output]);
      fp32_sizes.insert(loss_bytes);
      rewrite.timeline.insert(before_event(facts.birth(pass.forward[operation.first]), 1),
                              after_event(event + operation.count, 1), loss_bytes,
                              MemorySource::activations);
    }
    rewrite.doubtful_high_bytes =
        std::max(rewrite.doubtful_high_bytes, doubtful_recurrent_bytes(facts, pass));
    rewrite.doubtful_low_bytes =
        std::max(rewrite.doubtful_low_bytes, (norms_bytes + softmax_bytes) / 2);
    for (const std::uint32_t row : pass.backward) {
      is_in_pass[row] = 1;
      const bool is_fp32 = fp32_sizes.contains(facts.bytes(row));
      if (facts.source(row) != MemorySource::workspace && !is_fp32) halve(row);
    }
  }
  for (std::uint32_t row = 0; row < facts.record().allocations.size(); ++row) {
    if (is_in_pass[row] != 0) continue;
    const MemorySource source = facts.source(row);
    const bool is_of_numbers = source == MemorySource::inputs && has_embedding;
    if (source == MemorySource::workspace || source == MemorySource::unknown || is_of_numbers)
      continue;
    halve(row);
  }
}

}  // namespace

RemedySpec pure_bf16() {
  return {
      .name = "pure_bf16",
      .title = "everything in bf16, weights and optimizer too",
      .cost = RemedyCost::changes_training,
      .how =
          "model = model.to(torch.bfloat16)\n"
          "x = x.to(torch.bfloat16)  # inputs that are not indices",
      .aspect = Aspect::precision,
      .band = 0.06,
      .is_estimated = true,
      .least = {.step = 0.5, .weights = 0.5},
      .fit_cost = 90,
      .fit_order = 51,
      .rewrite = [](const AdvisedRun&, const Change&, Rewrite& rewrite) { use_pure_bf16(rewrite); },
  };
}

}  // namespace gpumemprof::remedies
