"""Instruction tuning of a GLM-shaped decoder with Trainer in bf16: loss on the answers only,
dynamic padding, an evaluation after every second step.
"""

import argparse
import math
import random
import tempfile

import torch
from transformers import GlmConfig, GlmForCausalLM, Trainer, TrainingArguments

PAD = 0


def conversations(count, longest, vocab, seed):
    rng = random.Random(seed)
    rows = []
    for _ in range(count):
        prompt = rng.randint(longest // 8, longest // 2)
        answer = rng.randint(longest // 8, longest // 2)
        ids = [rng.randrange(5, vocab) for _ in range(prompt + answer)]
        rows.append({"input_ids": ids, "labels": [-100] * prompt + ids[prompt:]})
    return rows


def collate(rows):
    longest = max(len(row["input_ids"]) for row in rows)
    longest = math.ceil(longest / 8) * 8
    batch = {"input_ids": [], "attention_mask": [], "labels": []}
    for row in rows:
        pad = longest - len(row["input_ids"])
        batch["input_ids"].append(row["input_ids"] + [PAD] * pad)
        batch["attention_mask"].append([1] * len(row["input_ids"]) + [0] * pad)
        batch["labels"].append(row["labels"] + [-100] * pad)
    return {key: torch.tensor(value) for key, value in batch.items()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=6)
    parser.add_argument("--eval-batch-size", type=int, default=8)
    parser.add_argument("--longest", type=int, default=1536)
    parser.add_argument("--hidden", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--vocab", type=int, default=59264)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--precision", choices=["bf16", "fp32"], default="bf16")
    args = parser.parse_args()

    torch.manual_seed(7)
    config = GlmConfig(
        vocab_size=args.vocab,
        hidden_size=args.hidden,
        intermediate_size=args.hidden * 3,
        num_hidden_layers=args.layers,
        num_attention_heads=args.hidden // 64,
        num_key_value_heads=2,
        head_dim=64,
        max_position_embeddings=args.longest + 8,
        use_cache=False,
        pad_token_id=PAD,
        eos_token_id=2,
    )
    model = GlmForCausalLM(config)
    train = conversations(args.batch_size * 8, args.longest, args.vocab, seed=1)
    held_out = conversations(args.eval_batch_size * 3, args.longest, args.vocab, seed=2)

    trainer = Trainer(
        model=model,
        args=TrainingArguments(
            output_dir=tempfile.mkdtemp(prefix="glm-sft-"),
            per_device_train_batch_size=args.batch_size,
            per_device_eval_batch_size=args.eval_batch_size,
            gradient_accumulation_steps=2,
            max_steps=args.steps,
            learning_rate=5e-5,
            bf16=args.precision == "bf16",
            eval_strategy="steps",
            eval_steps=2,
            prediction_loss_only=True,
            logging_steps=1,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
        ),
        train_dataset=train,
        eval_dataset=held_out,
        data_collator=collate,
    )
    trainer.train()
    metrics = trainer.evaluate()
    print(f"held-out loss {metrics['eval_loss']:.3f}")


if __name__ == "__main__":
    main()
