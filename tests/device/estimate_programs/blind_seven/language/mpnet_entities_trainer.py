"""Named entities with an MPNet encoder: Trainer, bf16, entity F1 computed during evaluation."""

import argparse
import tempfile

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import MPNetConfig, MPNetForTokenClassification, Trainer, TrainingArguments

LABELS = ["O", "B-PER", "I-PER", "B-ORG", "I-ORG", "B-LOC", "I-LOC", "B-DATE", "I-DATE"]


class TaggedSentences(Dataset):
    def __init__(self, size, longest, vocab, seed):
        rng = np.random.default_rng(seed)
        self.rows = []
        for _ in range(size):
            n = int(rng.integers(longest // 4, longest + 1))
            ids = rng.integers(4, vocab - 1, n)
            tags = np.where(rng.random(n) < 0.8, 0, rng.integers(1, len(LABELS), n))
            # Only the first piece of a word carries a label.
            tags[rng.random(n) < 0.25] = -100
            self.rows.append((ids.tolist(), tags.tolist()))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        ids, tags = self.rows[i]
        return {"input_ids": ids, "labels": tags}


class Collator:
    def __init__(self, pad_id):
        self.pad_id = pad_id

    def __call__(self, rows):
        n = max(len(r["input_ids"]) for r in rows)
        ids = torch.full((len(rows), n), self.pad_id)
        labels = torch.full((len(rows), n), -100)
        for i, r in enumerate(rows):
            k = len(r["input_ids"])
            ids[i, :k] = torch.tensor(r["input_ids"])
            labels[i, :k] = torch.tensor(r["labels"])
        return {"input_ids": ids, "attention_mask": (ids != self.pad_id).long(), "labels": labels}


def compute_metrics(prediction):
    guess = prediction.predictions.argmax(-1)
    truth = prediction.label_ids
    known = truth != -100
    hits = ((guess == truth) & (truth > 0) & known).sum()
    precision = hits / max(((guess > 0) & known).sum(), 1)
    recall = hits / max(((truth > 0) & known).sum(), 1)
    f1 = 2 * precision * recall / max(precision + recall, 1e-9)
    return {"precision": float(precision), "recall": float(recall), "f1": float(f1)}


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--batch-size", type=int, default=32)
    p.add_argument("--longest", type=int, default=384)
    p.add_argument("--hidden", type=int, default=768)
    p.add_argument("--layers", type=int, default=12)
    p.add_argument("--vocab", type=int, default=30527)
    p.add_argument("--steps", type=int, default=6)
    p.add_argument("--bf16", action=argparse.BooleanOptionalAction, default=True)
    args = p.parse_args()
    torch.manual_seed(0)

    config = MPNetConfig(
        vocab_size=args.vocab,
        hidden_size=args.hidden,
        num_hidden_layers=args.layers,
        num_attention_heads=args.hidden // 64,
        intermediate_size=args.hidden * 4,
        max_position_embeddings=args.longest + 4,
        num_labels=len(LABELS),
        id2label=dict(enumerate(LABELS)),
        label2id={label: i for i, label in enumerate(LABELS)},
    )
    model = MPNetForTokenClassification(config)

    trainer = Trainer(
        model=model,
        args=TrainingArguments(
            output_dir=tempfile.mkdtemp(),
            per_device_train_batch_size=args.batch_size,
            per_device_eval_batch_size=args.batch_size * 2,
            learning_rate=3e-5,
            max_steps=args.steps,
            bf16=args.bf16,
            eval_strategy="steps",
            eval_steps=max(args.steps // 2, 1),
            eval_accumulation_steps=2,
            logging_steps=2,
            save_strategy="no",
            dataloader_num_workers=1,
            report_to="none",
            disable_tqdm=True,
        ),
        train_dataset=TaggedSentences(args.batch_size * 8, args.longest, args.vocab, seed=0),
        eval_dataset=TaggedSentences(args.batch_size * 4, args.longest, args.vocab, seed=1),
        data_collator=Collator(config.pad_token_id),
        compute_metrics=compute_metrics,
    )
    trainer.train()
    for entry in trainer.state.log_history:
        if "eval_f1" in entry:
            print(f"step {entry['step']}: loss {entry['eval_loss']:.3f} F1 {entry['eval_f1']:.3f}")


if __name__ == "__main__":
    main()
