"""Named entities with ELECTRA and the Trainer: fp16, evaluation with metrics between steps."""

import argparse
import tempfile

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import (
    ElectraConfig,
    ElectraForTokenClassification,
    Trainer,
    TrainingArguments,
    set_seed,
)

LABELS = ["O", "B-PER", "I-PER", "B-ORG", "I-ORG", "B-LOC", "I-LOC", "B-MISC", "I-MISC"]


class Sentences(Dataset):
    def __init__(self, n, longest, vocab, seed):
        rng = np.random.default_rng(seed)
        self.rows = []
        for _ in range(n):
            size = int(rng.integers(longest // 4, longest + 1))
            words = rng.integers(5, vocab, size)
            tags = np.where(rng.random(size) < 0.8, 0, rng.integers(0, len(LABELS), size))
            # Word pieces other than the first of a word carry no label.
            tags = np.where(rng.random(size) < 0.15, -100, tags)
            self.rows.append({"input_ids": words, "labels": tags})

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


def collate(rows):
    longest = max(len(r["input_ids"]) for r in rows)
    longest = (longest + 7) // 8 * 8
    ids = torch.zeros(len(rows), longest, dtype=torch.long)
    labels = torch.full((len(rows), longest), -100)
    mask = torch.zeros(len(rows), longest, dtype=torch.long)
    for i, r in enumerate(rows):
        n = len(r["input_ids"])
        ids[i, :n] = torch.as_tensor(r["input_ids"])
        labels[i, :n] = torch.as_tensor(r["labels"])
        mask[i, :n] = 1
    return {"input_ids": ids, "attention_mask": mask, "labels": labels}


def metrics(output):
    guess = output.predictions.argmax(-1)
    real = output.label_ids
    keep = real != -100
    entity = keep & (real > 0)
    hit = (guess == real) & entity
    precision = hit.sum() / max(1, ((guess > 0) & keep).sum())
    recall = hit.sum() / max(1, entity.sum())
    f1 = 2 * precision * recall / max(1e-9, precision + recall)
    return {"accuracy": float((guess == real)[keep].mean()), "f1": float(f1)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=48)
    parser.add_argument("--longest", type=int, default=256)
    parser.add_argument("--hidden", type=int, default=768)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--vocab", type=int, default=30522)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--no-fp16", action="store_true")
    args = parser.parse_args()
    set_seed(7)
    config = ElectraConfig(
        vocab_size=args.vocab,
        embedding_size=args.hidden // 2,
        hidden_size=args.hidden,
        num_hidden_layers=args.layers,
        num_attention_heads=args.hidden // 64,
        intermediate_size=4 * args.hidden,
        num_labels=len(LABELS),
        id2label=dict(enumerate(LABELS)),
    )
    model = ElectraForTokenClassification(config)
    with tempfile.TemporaryDirectory() as out:
        arguments = TrainingArguments(
            out,
            per_device_train_batch_size=args.batch_size,
            per_device_eval_batch_size=2 * args.batch_size,
            learning_rate=5e-5,
            fp16=not args.no_fp16,
            max_steps=args.steps,
            eval_strategy="steps",
            eval_steps=3,
            logging_steps=2,
            save_strategy="no",
            label_smoothing_factor=0.0,
            optim="adamw_torch",
            report_to="none",
        )
        trainer = Trainer(
            model=model,
            args=arguments,
            data_collator=collate,
            train_dataset=Sentences(args.batch_size * args.steps, args.longest, args.vocab, 0),
            eval_dataset=Sentences(args.batch_size * 4, args.longest, args.vocab, 1),
            compute_metrics=metrics,
        )
        trainer.train()
        final = trainer.evaluate()
    print({k: round(v, 4) for k, v in final.items() if isinstance(v, float)})


if __name__ == "__main__":
    main()
