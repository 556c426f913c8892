"""Supervised fine-tuning of a Qwen3 with Trainer: bf16, accumulation, checkpointing, chats of
different lengths padded per batch, loss on the answers only.
"""

import argparse
import random
import tempfile

import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import Dataset
from transformers import Qwen3Config, Qwen3ForCausalLM, Trainer, TrainingArguments, set_seed


class Chats(Dataset):
    def __init__(self, count, shortest, longest, vocab):
        rng = random.Random(0)
        self.rows = []
        for _ in range(count):
            length = rng.randint(shortest, longest)
            prompt = rng.randint(length // 4, length // 2)
            ids = [rng.randrange(10, vocab) for _ in range(length)]
            self.rows.append({"input_ids": ids, "labels": [-100] * prompt + ids[prompt:]})

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


def collate(rows, pad=0, multiple=8):
    longest = max(len(row["input_ids"]) for row in rows)
    longest = -(-longest // multiple) * multiple
    first = [torch.tensor(row["input_ids"]) for row in rows]
    labels = [torch.tensor(row["labels"]) for row in rows]
    ids = pad_sequence(first, batch_first=True, padding_value=pad)
    labels = pad_sequence(labels, batch_first=True, padding_value=-100)
    extra = longest - ids.shape[1]
    ids = torch.nn.functional.pad(ids, (0, extra), value=pad)
    labels = torch.nn.functional.pad(labels, (0, extra), value=-100)
    return {"input_ids": ids, "labels": labels, "attention_mask": (ids != pad).long()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--accumulation", type=int, default=2)
    parser.add_argument("--shortest", type=int, default=256)
    parser.add_argument("--longest", type=int, default=1536)
    parser.add_argument("--hidden", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--vocab", type=int, default=151936)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--fp32", action="store_true")
    args = parser.parse_args()

    set_seed(0)
    model = Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=args.vocab,
            hidden_size=args.hidden,
            intermediate_size=args.hidden * 3,
            num_hidden_layers=args.layers,
            num_attention_heads=args.hidden // 64,
            num_key_value_heads=args.hidden // 128,
            head_dim=64,
            tie_word_embeddings=True,
            max_position_embeddings=4096,
        )
    )
    model.config.use_cache = False
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(
            model=model,
            args=TrainingArguments(
                output_dir=folder,
                per_device_train_batch_size=args.batch_size,
                gradient_accumulation_steps=args.accumulation,
                gradient_checkpointing=True,
                bf16=not args.fp32,
                optim="adamw_torch_fused",
                learning_rate=2e-5,
                lr_scheduler_type="cosine",
                max_steps=args.steps,
                logging_steps=1,
                save_strategy="no",
                report_to="none",
                disable_tqdm=True,
            ),
            train_dataset=Chats(64, args.shortest, args.longest, args.vocab),
            data_collator=collate,
        )
        trainer.train()


if __name__ == "__main__":
    main()
