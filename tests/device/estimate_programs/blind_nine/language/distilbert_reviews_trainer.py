"""DistilBERT on reviews with Trainer: fp16, padding per batch, accuracy after each epoch."""

import argparse
import tempfile

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import (
    DistilBertConfig,
    DistilBertForSequenceClassification,
    Trainer,
    TrainingArguments,
    set_seed,
)


class Reviews(Dataset):
    def __init__(self, count, longest, vocab, seed):
        rng = np.random.default_rng(seed)
        lengths = rng.integers(longest // 4, longest + 1, count)
        self.texts = [rng.integers(5, vocab, length) for length in lengths]
        self.labels = rng.integers(0, 2, count)

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, i):
        return {"input_ids": self.texts[i], "labels": int(self.labels[i])}


def pad(rows):
    longest = max(len(row["input_ids"]) for row in rows)
    ids = np.zeros((len(rows), longest), dtype=np.int64)
    for i, row in enumerate(rows):
        ids[i, : len(row["input_ids"])] = row["input_ids"]
    ids = torch.from_numpy(ids)
    labels = torch.tensor([row["labels"] for row in rows])
    return {"input_ids": ids, "attention_mask": (ids > 0).long(), "labels": labels}


def compute_metrics(result):
    return {"accuracy": float((result.predictions.argmax(-1) == result.label_ids).mean())}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--longest", type=int, default=384)
    parser.add_argument("--dim", type=int, default=768)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--vocab", type=int, default=30522)
    parser.add_argument("--batches", type=int, default=3)
    parser.add_argument("--no-fp16", action="store_true")
    args = parser.parse_args()
    set_seed(7)
    config = DistilBertConfig(
        vocab_size=args.vocab,
        dim=args.dim,
        hidden_dim=4 * args.dim,
        n_layers=args.layers,
        n_heads=args.dim // 64,
        num_labels=2,
    )
    model = DistilBertForSequenceClassification(config)
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder,
            num_train_epochs=2,
            per_device_train_batch_size=args.batch_size,
            per_device_eval_batch_size=2 * args.batch_size,
            learning_rate=2e-5,
            weight_decay=0.01,
            fp16=not args.no_fp16,
            eval_strategy="epoch",
            save_strategy="no",
            logging_steps=1,
            report_to="none",
            disable_tqdm=True,
        )
        trainer = Trainer(
            model,
            arguments,
            train_dataset=Reviews(args.batch_size * args.batches, args.longest, args.vocab, 0),
            eval_dataset=Reviews(args.batch_size * 3, args.longest, args.vocab, 1),
            data_collator=pad,
            compute_metrics=compute_metrics,
        )
        trainer.train()


if __name__ == "__main__":
    main()
