#include "long_run/training.h"

#include <array>

namespace gpumemprof::long_run {
namespace {

constexpr std::uint64_t kSequences = 4;  // in a batch
constexpr std::array<std::uint64_t, 6> kLengths = {128, 192, 256, 320, 384, 448};
constexpr std::uint64_t kEvaluateEverySteps = 500;
constexpr std::uint64_t kEvaluationBatches = 4;
constexpr std::uint64_t kWorkspaceBytes = 8'519'680;
constexpr std::uint64_t kAbsurdBytes = 512 * kGiB - kMiB;
// What happens once, at which percent of the run.
constexpr std::uint64_t kFirstLongPercent = 31;
constexpr std::uint64_t kOomPercent = 50;
constexpr std::uint64_t kEmptyCachePercent = 65;
constexpr std::uint64_t kSecondLongPercent = 77;
// Times the longest batch, in tenths.
constexpr std::uint64_t kFirstLongTenths = 16;
constexpr std::uint64_t kSecondLongTenths = 18;

NamedSlots take_named_slots(Slots& slots, std::size_t parameters) {
  NamedSlots named;
  named.parameters = slots.take(parameters);
  named.gradients = slots.take(parameters);
  named.states = slots.take(2 * parameters);
  return named;
}

std::uint64_t event_count(const Script& script) {
  std::uint64_t count = 0;
  for (const Instruction& instruction : script.instructions())
    count += instruction.kind == Instruction::Kind::allocate ? 1 : 2;
  return count;
}

std::uint64_t long_tokens(std::uint64_t tenths) {
  return kSequences * (kLengths.back() * tenths / 10);
}

}  // namespace

Training::Training(Recorder& recorder, const TrainingOptions& options)
    : recorder_(&recorder),
      options_(options),
      random_(options.seed),
      model_(Shape()),
      code_(recorder.writer()),
      named_(take_named_slots(slots_, model_.parameters().size())),
      memory_(recorder, options.card_bytes),
      passes_(compile_passes(model_, code_, slots_, named_.gradients)),
      hooks_(recorder, memory_, model_, named_, options.has_labels),
      batches_{slots_.take(2), slots_.take(2)} {
  compile_optimizer();
  summary_.steps = planned_steps();
  summary_.first.step = summary_.steps * kFirstLongPercent / 100 + 1;
  summary_.second.step = summary_.steps * kSecondLongPercent / 100 + 1;
}

std::uint64_t Training::planned_steps() const {
  constexpr std::uint64_t kBatchEvents = 6;
  const std::uint64_t training = kBatchEvents + event_count(passes_.forward) +
                                 event_count(passes_.backward) + event_count(clip_) +
                                 event_count(update_) + event_count(zero_gradients_) + 2;
  const std::uint64_t evaluation =
      kEvaluationBatches * (kBatchEvents + event_count(passes_.evaluation) + 2);
  const std::uint64_t period = kEvaluateEverySteps * training + evaluation;
  return std::max<std::uint64_t>(1, options_.events * kEvaluateEverySteps / period);
}

// torch.nn.utils.clip_grad_norm_() and AdamW's step(), both with torch._foreach functions.
void Training::compile_optimizer() {
  const std::vector<Parameter>& parameters = model_.parameters();
  const Place norms{code_.clipping("_get_total_norm", 76), {}, kNoModule};
  const Slot first_norm = slots_.take(parameters.size());
  for (Slot row = 0; row < parameters.size(); ++row)
    clip_.allocate(first_norm + row, fixed(kFloatBytes), norms);
  const Slot stacked = slots_.take();
  const Slot total = slots_.take();
  clip_.allocate(stacked, fixed(parameters.size() * kFloatBytes), norms);
  clip_.allocate(total, fixed(kFloatBytes), norms);
  clip_.free(stacked, norms.stack);
  for (Slot row = 0; row < parameters.size(); ++row) clip_.free(first_norm + row, norms.stack);
  const Place scale{code_.clipping("_clip_grads_with_norm_", 155), {}, kNoModule};
  const Slot coefficient = slots_.take();
  clip_.allocate(coefficient, fixed(kFloatBytes), scale);
  clip_.free(coefficient, scale.stack);
  clip_.free(total, code_.main_line(127));

  const Place average{code_.making_state(178), {}, kNoModule};
  const Place square{code_.making_state(182), {}, kNoModule};
  const Place update{code_.updating(), {}, kNoModule};
  const Slot first_root = slots_.take(parameters.size());
  for (Slot row = 0; row < parameters.size(); ++row) {
    const Size size = fixed(parameters[row].size_bytes);
    make_state_.allocate(named_.states + 2 * row, size, average);
    make_state_.allocate(named_.states + 2 * row + 1, size, square);
    update_.allocate(first_root + row, size, update);
    zero_gradients_.free(named_.gradients + row, code_.zeroing_gradients());
  }
  for (Slot row = 0; row < parameters.size(); ++row) update_.free(first_root + row, update.stack);
}

void Training::move_model() {
  Slot slot = named_.parameters;
  for (const Parameter& parameter : model_.parameters()) {
    memory_.allocate(slot++, parameter.size_bytes,
                     {code_.moving_parameters(parameter.depth), {}, kNoModule});
  }
}

TrainingSummary Training::run() {
  move_model();
  for (std::uint64_t step = 1; step <= summary_.steps; ++step) {
    train_step(step);
    do_rarities(step);
    if (step % kEvaluateEverySteps == 0) evaluate();
    if (!recorder_->writer().status()) break;  // a full disk, say: closing reports it
  }
  summary_.peak = memory_.peak();
  return summary_;
}

std::uint64_t Training::next_tokens() {
  return kSequences * kLengths[random_.below(kLengths.size())];
}

void Training::load_batch(std::uint64_t tokens, StackId caller) {
  const Slot last = batches_[batch_++ % 2];
  const Slot next = batches_[batch_ % 2];
  const Place loading{code_.loading(caller), {}, kNoModule, Stream::copy};
  for (const Slot tensor : {next, next + 1})
    memory_.allocate(tensor, tokens * kIndexBytes, loading);
  if (has_batch_) {
    for (const Slot tensor : {last, last + 1}) memory_.free(tensor, caller);
  }
  has_batch_ = true;
}

void Training::take_workspace(const Place& place) {
  memory_.allocate(slots_.take(), kWorkspaceBytes, place);
}

void Training::train_step(std::uint64_t step) {
  std::uint64_t tokens = next_tokens();
  LongStep* const longer = step == summary_.first.step    ? &summary_.first
                           : step == summary_.second.step ? &summary_.second
                                                          : nullptr;
  if (longer != nullptr) {
    tokens = long_tokens(longer == &summary_.first ? kFirstLongTenths : kSecondLongTenths);
    memory_.begin_interval();
  }
  load_batch(tokens, code_.main_line(118));
  const Slot batch = batches_[batch_ % 2];
  hooks_.before_forward(batch, batch + 1);
  if (step == 1) take_workspace(passes_.first_matmul);
  memory_.run(passes_.forward, tokens);
  if (step == 1) take_workspace({{}, passes_.first_matmul.stack, passes_.first_matmul.module});
  memory_.run(passes_.backward, tokens);
  if (step % kLeakEverySteps == 0) leak();
  memory_.run(clip_, tokens);
  optimize(step);
  memory_.free(passes_.loss, code_.main_line(132));
  if (longer != nullptr) longer->peak = memory_.interval_peak();
}

void Training::optimize(std::uint64_t step) {
  hooks_.before_step();
  if (step == 1) memory_.run(make_state_, 0);
  memory_.run(update_, 0);
  hooks_.after_step();
  memory_.run(zero_gradients_, 0);
}

void Training::leak() {
  const StackId stack = code_.call(code_.main_line(125), "log_loss", kTrainFile, 88);
  memory_.allocate(slots_.take(), kLeakBytes, {stack, {}, kNoModule});
  summary_.leaked_bytes += kLeakBytes;
}

void Training::do_rarities(std::uint64_t step) {
  if (step == summary_.steps * kOomPercent / 100 + 1) {
    const StackId stack = code_.call(code_.main_line(134), "try_larger_batch", kTrainFile, 94);
    memory_.fail_to_allocate(kAbsurdBytes, {stack, {}, kNoModule});
    summary_.oom_event = recorder_->rows() - 1;
  }
  if (step == summary_.steps * kEmptyCachePercent / 100 + 1)
    memory_.empty_cache(code_.emptying_cache());
}

void Training::evaluate() {
  const StackId loop = code_.call(code_.main_line(116), "evaluate", kTrainFile, 70);
  for (std::uint64_t batch = 0; batch < kEvaluationBatches; ++batch) {
    const std::uint64_t tokens = next_tokens();
    load_batch(tokens, loop);
    memory_.run(passes_.evaluation, tokens);
    memory_.free(passes_.evaluation_loss,
                 code_.call(code_.main_line(116), "evaluate", kTrainFile, 73));
  }
  ++summary_.evaluations;
}

}  // namespace gpumemprof::long_run
