"""Instruction tuning of a Llama with Trainer: bf16, checkpointing, accumulation and evaluations."""

import argparse
import random
import tempfile

import torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments


def make_rows(count, longest, vocab, seed):
    rng = random.Random(seed)
    rows = []
    for _ in range(count):
        length = rng.randint(longest // 3, longest)
        rows.append({"input_ids": [rng.randrange(3, vocab) for _ in range(length)]})
    return rows


class Collator:
    def __init__(self, pad):
        self.pad = pad

    def __call__(self, rows):
        longest = max(len(row["input_ids"]) for row in rows)
        ids = torch.full((len(rows), longest), self.pad)
        mask = torch.zeros_like(ids)
        for i, row in enumerate(rows):
            ids[i, : len(row["input_ids"])] = torch.tensor(row["input_ids"])
            mask[i, : len(row["input_ids"])] = 1
        labels = ids.masked_fill(mask == 0, -100)
        return {"input_ids": ids, "attention_mask": mask, "labels": labels}


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--batch_size", type=int, default=4)
    p.add_argument("--longest", type=int, default=1024)
    p.add_argument("--hidden", type=int, default=1536)
    p.add_argument("--layers", type=int, default=12)
    p.add_argument("--vocab", type=int, default=32000)
    p.add_argument("--steps", type=int, default=4)
    p.add_argument("--no_bf16", action="store_true")
    return p.parse_args()


def main():
    args = parse()
    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=args.vocab,
        hidden_size=args.hidden,
        intermediate_size=args.hidden * 8 // 3 // 64 * 64,
        num_hidden_layers=args.layers,
        num_attention_heads=args.hidden // 128,
        num_key_value_heads=max(args.hidden // 512, 1),
        max_position_embeddings=2048,
        pad_token_id=0,
    )
    model = LlamaForCausalLM(config)
    with tempfile.TemporaryDirectory() as folder:
        training = TrainingArguments(
            output_dir=folder,
            per_device_train_batch_size=args.batch_size,
            per_device_eval_batch_size=args.batch_size,
            gradient_accumulation_steps=2,
            gradient_checkpointing=True,
            gradient_checkpointing_kwargs={"use_reentrant": False},
            learning_rate=1e-5,
            max_grad_norm=1.0,
            bf16=not args.no_bf16,
            max_steps=args.steps,
            eval_strategy="steps",
            eval_steps=2,
            prediction_loss_only=True,
            logging_steps=1,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
        )
        trainer = Trainer(
            model=model,
            args=training,
            train_dataset=make_rows(64, args.longest, args.vocab, 0),
            eval_dataset=make_rows(2 * args.batch_size, args.longest, args.vocab, 1),
            data_collator=Collator(0),
        )
        trainer.train()


if __name__ == "__main__":
    main()
