"""Pretrains a small Llama with the Trainer: bf16, accumulation, checkpointing, saved weights."""

import argparse
import math
import tempfile
from pathlib import Path

import torch
from torch.utils.data import IterableDataset
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainerCallback, TrainingArguments


class Packed(IterableDataset):
    """Documents of random length, joined and cut into blocks."""

    def __init__(self, block, vocab, seed=0):
        self.block, self.vocab, self.seed = block, vocab, seed

    def __iter__(self):
        gen = torch.Generator().manual_seed(self.seed)
        rest = []
        while True:
            n = int(torch.randint(20, 600, (1,), generator=gen))
            rest += [*torch.randint(3, self.vocab, (n,), generator=gen).tolist(), 2]
            while len(rest) >= self.block:
                ids = torch.tensor(rest[: self.block])
                rest = rest[self.block :]
                yield {"input_ids": ids, "labels": ids.clone()}


class Report(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **kwargs):
        if logs and "loss" in logs:
            print(f"{state.global_step}: ppl {math.exp(min(20, float(logs['loss']))):.1f}")
        if torch.cuda.is_available():
            print(f"   {torch.cuda.max_memory_allocated() / 1e9:.2f} GB at most")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--batch-size", type=int, default=6)
    p.add_argument("--block", type=int, default=1536)
    p.add_argument("--accumulation", type=int, default=3)
    p.add_argument("--hidden", type=int, default=1024)
    p.add_argument("--layers", type=int, default=8)
    p.add_argument("--vocab", type=int, default=32000)
    p.add_argument("--fp32", action="store_true")
    p.add_argument("--steps", type=int, default=4)
    args = p.parse_args()

    torch.manual_seed(1234)
    config = LlamaConfig(
        vocab_size=args.vocab,
        hidden_size=args.hidden,
        intermediate_size=args.hidden * 11 // 4,
        num_hidden_layers=args.layers,
        num_attention_heads=args.hidden // 64,
        num_key_value_heads=args.hidden // 128,
        max_position_embeddings=2048,
        tie_word_embeddings=False,
    )
    model = LlamaForCausalLM(config)
    n = sum(p.numel() for p in model.parameters())
    print("parameters:", n)

    with tempfile.TemporaryDirectory() as out:
        targs = TrainingArguments(
            output_dir=out,
            per_device_train_batch_size=args.batch_size,
            gradient_accumulation_steps=args.accumulation,
            gradient_checkpointing=True,
            gradient_checkpointing_kwargs={"use_reentrant": False},
            bf16=not args.fp32,
            learning_rate=3e-4,
            adam_beta2=0.95,
            weight_decay=0.1,
            max_grad_norm=1.0,
            warmup_steps=2,
            lr_scheduler_type="cosine",
            max_steps=args.steps,
            logging_steps=1,
            save_steps=2,
            save_total_limit=1,
            save_only_model=True,
            report_to=[],
            disable_tqdm=True,
            dataloader_num_workers=0,
        )
        data = Packed(args.block, args.vocab)
        trainer = Trainer(model=model, args=targs, train_dataset=data, callbacks=[Report()])
        trainer.train()
        print("checkpoints:", sorted(f.name for f in Path(out).glob("checkpoint-*")))


if __name__ == "__main__":
    main()
