#include "analysis/advice/plan.h"

#include <algorithm>

#include "base/error.h"

namespace gpumemprof {

// Bands were chosen by hand, wider than the errors found on the recorded pairs in docs/accuracy.md
// and never below 1 %: a judgement, not a derivation.
const std::vector<RemedyFacts>& all_remedies() {
  static const std::vector<RemedyFacts> kRemedies = {
      {RemedyId::checkpointing, "checkpointing", "checkpoint every repeated block",
       "from torch.utils.checkpoint import checkpoint\n"
       "for block in self.blocks:\n"
       "    x = checkpoint(block, x, use_reentrant=False)",
       "TrainingArguments(gradient_checkpointing=True)", 0.06, 0, RemedyCost::slower},
      {RemedyId::autocast_bf16, "autocast_bf16", "autocast to bf16",
       "with torch.autocast(\"cuda\", dtype=torch.bfloat16):\n"
       "    loss = loss_function(model(x), y)\n"
       "loss.backward()",
       "TrainingArguments(bf16=True)", 0.06, 5, RemedyCost::changes_training},
      {RemedyId::pure_bf16, "pure_bf16", "everything in bf16, weights and optimizer too",
       "model = model.to(torch.bfloat16)\n"
       "x = x.to(torch.bfloat16)  # inputs that are not indices",
       "", 0.06, 90, RemedyCost::changes_training},
      {RemedyId::sgd, "sgd", "SGD without momentum",
       "optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)",
       "TrainingArguments(optim=\"sgd\")", 0.01, 120, RemedyCost::changes_training},
      {RemedyId::sgd_momentum, "sgd_momentum", "SGD with momentum",
       "optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)", "", 0.01, 110,
       RemedyCost::changes_training},
      {RemedyId::lion, "lion", "Lion: one state for each parameter",
       "from lion_pytorch import Lion\n"
       "optimizer = Lion(model.parameters(), lr=1e-4)",
       "TrainingArguments(optim=\"lion_32bit\")", 0.01, 90, RemedyCost::changes_training},
      {RemedyId::adafactor, "adafactor", "Adafactor: rows and columns instead of matrices",
       "optimizer = torch.optim.Adafactor(model.parameters(), lr=1e-2)",
       "TrainingArguments(optim=\"adafactor\")", 0.02, 90, RemedyCost::changes_training},
      {RemedyId::adam_8bit, "adam_8bit", "Adam with 8-bit state",
       "import bitsandbytes as bnb\n"
       "optimizer = bnb.optim.AdamW8bit(model.parameters(), lr=1e-4)",
       "TrainingArguments(optim=\"adamw_bnb_8bit\")", 0.02, 50, RemedyCost::changes_training},
      {RemedyId::foreach_off, "foreach_off", "step one parameter after the other",
       "optimizer = torch.optim.AdamW(model.parameters(), foreach=False)", "", 0.01, 3,
       RemedyCost::slower},
      {RemedyId::fused, "fused", "step in one fused kernel",
       "optimizer = torch.optim.AdamW(model.parameters(), fused=True)",
       "TrainingArguments(optim=\"adamw_torch_fused\")", 0.01, 0.2, RemedyCost::free},
      {RemedyId::batch_x0_5, "batch_x0.5", "half the batch",
       "loader = DataLoader(dataset, batch_size=batch_size // 2)",
       "TrainingArguments(per_device_train_batch_size=…)", 0.03, 45, RemedyCost::changes_training},
      {RemedyId::batch_x2, "batch_x2", "twice the batch",
       "loader = DataLoader(dataset, batch_size=2 * batch_size)",
       "TrainingArguments(per_device_train_batch_size=…)", 0.03, 45, RemedyCost::changes_training},
      {RemedyId::accumulate_x4, "accumulate_x4",
       "sum gradients over 4 batches of the recorded size",
       "for number, (x, y) in enumerate(loader):\n"
       "    (loss_function(model(x), y) / 4).backward()\n"
       "    if number % 4 == 3:\n"
       "        optimizer.step(); optimizer.zero_grad()",
       "TrainingArguments(gradient_accumulation_steps=4)", 0.01, 45, RemedyCost::changes_training},
      {RemedyId::expandable_segments, "expandable_segments", "expandable segments",
       "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", "", 0.01, 0.1, RemedyCost::free},
      {RemedyId::micro_batch_x0_5, "micro_batch_x0.5",
       "the same batch as 2 micro-batches of half its size",
       "for x_part, y_part in zip(x.chunk(2), y.chunk(2)):\n"
       "    (loss_function(model(x_part), y_part) / 2).backward()\n"
       "optimizer.step()",
       "TrainingArguments(gradient_accumulation_steps=2,\n"
       "                  per_device_train_batch_size=…)",
       0.03, 12, RemedyCost::slower},
      {RemedyId::micro_batch_x0_25, "micro_batch_x0.25",
       "the same batch as 4 micro-batches of a quarter",
       "for x_part, y_part in zip(x.chunk(4), y.chunk(4)):\n"
       "    (loss_function(model(x_part), y_part) / 4).backward()\n"
       "optimizer.step()",
       "TrainingArguments(gradient_accumulation_steps=4,\n"
       "                  per_device_train_batch_size=…)",
       0.03, 20, RemedyCost::slower},
      {RemedyId::micro_batch_x0_125, "micro_batch_x0.125",
       "the same batch as 8 micro-batches of an eighth",
       "for x_part, y_part in zip(x.chunk(8), y.chunk(8)):\n"
       "    (loss_function(model(x_part), y_part) / 8).backward()\n"
       "optimizer.step()",
       "TrainingArguments(gradient_accumulation_steps=8,\n"
       "                  per_device_train_batch_size=…)",
       0.03, 28, RemedyCost::slower},
      {RemedyId::step_in_backward, "step_in_backward",
       "step each parameter inside backward, keep no gradients",
       "for p in model.parameters():\n"
       "    optimizers[p] = torch.optim.AdamW([p], foreach=False)\n"
       "    def step(p):\n"
       "        optimizers[p].step(); optimizers[p].zero_grad()\n"
       "    p.register_post_accumulate_grad_hook(step)",
       "", 0.03, 12, RemedyCost::slower},
      {RemedyId::chunked_loss, "chunked_loss", "compute the loss over 8 parts of the tokens",
       "for h, y in zip(hidden.chunk(8), labels.chunk(8)):\n"
       "    loss = loss + checkpoint(head_and_loss, h, y, use_reentrant=False)",
       "TrainingArguments(use_liger_kernel=True)", 0.06, 8, RemedyCost::slower},
      {RemedyId::offload_activations, "offload_activations",
       "keep what backward needs in the host's memory",
       "with torch.autograd.graph.save_on_cpu(pin_memory=True):\n"
       "    loss = loss_function(model(x), y)",
       "", 0.08, 2, RemedyCost::slower},
      {RemedyId::offload_optimizer, "offload_optimizer",
       "keep the optimizer's state in the host's memory",
       "# DeepSpeed's configuration:\n"
       "\"zero_optimization\": {\"stage\": 2, \"offload_optimizer\": {\"device\": \"cpu\"}}",
       "TrainingArguments(deepspeed=\"zero2_offload.json\")", 0.03, 25, RemedyCost::slower},
      {RemedyId::checkpointing_selective, "checkpointing_selective",
       "checkpoint every block, but keep products and attention",
       "from functools import partial\n"
       "from torch.utils.checkpoint import create_selective_checkpoint_contexts\n"
       "aten = torch.ops.aten\n"
       "kept = [aten.mm.default, aten.addmm.default, aten.bmm.default,\n"
       "        aten.convolution.default,\n"
       "        aten._scaled_dot_product_flash_attention.default,\n"
       "        aten._scaled_dot_product_efficient_attention.default]\n"
       "context = partial(create_selective_checkpoint_contexts, kept)\n"
       "for block in self.blocks:\n"
       "    x = checkpoint(block, x, use_reentrant=False, context_fn=context)",
       "", 0.1, 1, RemedyCost::slower},
      {RemedyId::autocast_fp16, "autocast_fp16", "autocast to fp16, with a gradient scaler",
       "scaler = torch.amp.GradScaler()  # fp16 gradients would vanish\n"
       "with torch.autocast(\"cuda\", dtype=torch.float16):\n"
       "    loss = loss_function(model(x), y)\n"
       "scaler.scale(loss).backward()\n"
       "scaler.step(optimizer)\n"
       "scaler.update()",
       "TrainingArguments(fp16=True)", 0.06, 6, RemedyCost::changes_training},
      {RemedyId::sequence_x0_5, "sequence_x0.5", "sequences of half the length",
       "tokens = tokens[:, : tokens.shape[1] // 2]", "", 0.06, 60, RemedyCost::changes_training},
      {RemedyId::sequence_x2, "sequence_x2", "sequences of twice the length",
       "tokenizer(text, max_length=2 * max_length, truncation=True)", "", 0.1, 60,
       RemedyCost::changes_training},
      {RemedyId::zero_grad_to_none, "zero_grad_to_none",
       "drop gradients behind each step instead of zeroing them",
       "optimizer.zero_grad(set_to_none=True)  # the default since torch 2.0", "", 0.01, 0.1,
       RemedyCost::free},
      {RemedyId::zero_grad_early, "zero_grad_early", "drop gradients right behind the step",
       "optimizer.step()\n"
       "optimizer.zero_grad()  # here, not before backward()",
       "", 0.01, 0.1, RemedyCost::free},
      {RemedyId::empty_cache, "empty_cache", "empty the cache behind each step",
       "optimizer.step()\n"
       "torch.cuda.empty_cache()",
       "TrainingArguments(torch_empty_cache_steps=1)", 0.01, 30, RemedyCost::slower},
  };
  return kRemedies;
}

const RemedyFacts& facts_of(RemedyId id) {
  const std::vector<RemedyFacts>& all = all_remedies();
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const RemedyFacts& facts) { return facts.id == id; });
  GMP_CHECK(found != all.end());
  return *found;
}

const RemedyFacts* find_remedy(std::string_view name) {
  const std::vector<RemedyFacts>& all = all_remedies();
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const RemedyFacts& facts) { return facts.name == name; });
  return found == all.end() ? nullptr : &*found;
}

bool excludes(RemedyId one, RemedyId other) {
  static const std::vector<std::vector<RemedyId>> kSame = {
      {RemedyId::checkpointing, RemedyId::checkpointing_selective, RemedyId::offload_activations},
      {RemedyId::autocast_bf16, RemedyId::autocast_fp16, RemedyId::pure_bf16},
      {RemedyId::sgd, RemedyId::sgd_momentum, RemedyId::lion, RemedyId::adafactor,
       RemedyId::adam_8bit, RemedyId::foreach_off, RemedyId::fused, RemedyId::step_in_backward,
       RemedyId::offload_optimizer},
      {RemedyId::batch_x0_5, RemedyId::batch_x2, RemedyId::accumulate_x4,
       RemedyId::micro_batch_x0_5, RemedyId::micro_batch_x0_25, RemedyId::micro_batch_x0_125},
      {RemedyId::sequence_x0_5, RemedyId::sequence_x2},
      {RemedyId::zero_grad_to_none, RemedyId::zero_grad_early},
  };
  return std::any_of(kSame.begin(), kSame.end(), [&](const std::vector<RemedyId>& same) {
    const auto has = [&](RemedyId id) {
      return std::find(same.begin(), same.end(), id) != same.end();
    };
    return has(one) && has(other);
  });
}

bool Change::has(RemedyId id) const {
  return std::find(remedies.begin(), remedies.end(), id) != remedies.end();
}

bool Change::recomputes(std::uint32_t ordinal) const {
  return !blocks || std::binary_search(blocks->begin(), blocks->end(), ordinal);
}

namespace {

std::vector<RepeatedBlock> chosen_of(const std::vector<RepeatedBlock>& blocks,
                                     const Change& change) {
  if (!change.blocks) return blocks;
  std::vector<RepeatedBlock> chosen;
  for (const RepeatedBlock& block : blocks) {
    if (change.recomputes(block.ordinal)) chosen.push_back(block);
  }
  return chosen;
}

void apply_optimizer(Rewrite& rewrite, const Change& change) {
  if (change.has(RemedyId::sgd)) use_optimizer(rewrite, OptimizerChoice::sgd);
  if (change.has(RemedyId::sgd_momentum)) use_optimizer(rewrite, OptimizerChoice::sgd_momentum);
  if (change.has(RemedyId::lion)) use_optimizer(rewrite, OptimizerChoice::lion);
  if (change.has(RemedyId::adafactor)) use_optimizer(rewrite, OptimizerChoice::adafactor);
  if (change.has(RemedyId::adam_8bit)) use_optimizer(rewrite, OptimizerChoice::adam_8bit);
  if (change.has(RemedyId::foreach_off)) use_stepping(rewrite, SteppingMode::foreach_off);
  if (change.has(RemedyId::fused)) use_stepping(rewrite, SteppingMode::fused);
  if (change.has(RemedyId::offload_optimizer)) offload_optimizer(rewrite);
  if (change.has(RemedyId::step_in_backward)) step_in_backward(rewrite);
}

void apply_sizes(Rewrite& rewrite, const Change& change) {
  const bool is_split = change.has(RemedyId::micro_batch_x0_5) ||
                        change.has(RemedyId::micro_batch_x0_25) ||
                        change.has(RemedyId::micro_batch_x0_125);
  if (is_split || change.has(RemedyId::accumulate_x4)) accumulate(rewrite);
  double batch = change.batch_factor;
  if (change.has(RemedyId::micro_batch_x0_5) || change.has(RemedyId::batch_x0_5)) batch *= 0.5;
  if (change.has(RemedyId::micro_batch_x0_25)) batch *= 0.25;
  if (change.has(RemedyId::micro_batch_x0_125)) batch *= 0.125;
  if (change.has(RemedyId::batch_x2)) batch *= 2;
  double sequence = change.sequence_factor;
  if (change.has(RemedyId::sequence_x0_5)) sequence *= 0.5;
  if (change.has(RemedyId::sequence_x2)) sequence *= 2;
  if (batch != 1) scale_batch(rewrite, batch);
  if (sequence != 1) scale_sequence(rewrite, sequence);
}

}  // namespace

void apply(Rewrite& rewrite, const Change& change, const std::vector<RepeatedBlock>& blocks) {
  if (change.has(RemedyId::zero_grad_to_none)) zero_to_none(rewrite);
  if (change.has(RemedyId::zero_grad_early)) zero_early(rewrite);
  if (change.has(RemedyId::autocast_bf16) || change.has(RemedyId::autocast_fp16))
    use_autocast(rewrite);
  if (change.has(RemedyId::pure_bf16)) use_pure_bf16(rewrite);
  if (change.has(RemedyId::chunked_loss)) chunk_loss(rewrite, 8);
  if (change.has(RemedyId::checkpointing)) checkpoint_blocks(rewrite, chosen_of(blocks, change));
  if (change.has(RemedyId::checkpointing_selective))
    checkpoint_blocks(rewrite, blocks, Kept::products);
  if (change.has(RemedyId::offload_activations)) offload_activations(rewrite);
  apply_optimizer(rewrite, change);
  apply_sizes(rewrite, change);
  if (change.has(RemedyId::empty_cache)) empty_cache_each_step(rewrite);
}

}  // namespace gpumemprof
