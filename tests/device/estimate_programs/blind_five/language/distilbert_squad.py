"""Extractive question answering with DistilBERT: HF Trainer in bf16, evaluation each few steps."""

import argparse
import tempfile

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import (
    DistilBertConfig,
    DistilBertForQuestionAnswering,
    Trainer,
    TrainingArguments,
    default_data_collator,
    set_seed,
)


class FakeSquad(Dataset):
    """Features as run_qa.py makes them: fixed length, padded, with an answer span."""

    def __init__(self, n, length, vocab, seed):
        g = torch.Generator().manual_seed(seed)
        self.ids = torch.randint(5, vocab, (n, length), generator=g)
        used = torch.randint(length // 2, length + 1, (n, 1), generator=g)
        self.mask = (torch.arange(length)[None] < used).long()
        self.ids *= self.mask
        self.start = torch.randint(1, length // 4, (n,), generator=g)
        self.end = self.start + torch.randint(0, length // 4, (n,), generator=g)

    def __len__(self):
        return self.ids.size(0)

    def __getitem__(self, i):
        return {
            "input_ids": self.ids[i],
            "attention_mask": self.mask[i],
            "start_positions": self.start[i],
            "end_positions": self.end[i],
        }


def compute_metrics(prediction):
    start_logits, end_logits = prediction.predictions
    start, end = prediction.label_ids
    exact = (np.argmax(start_logits, -1) == start) & (np.argmax(end_logits, -1) == end)
    return {"exact_match": float(exact.mean())}


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--train_batch", type=int, default=24)
    p.add_argument("--eval_batch", type=int, default=64)
    p.add_argument("--max_length", type=int, default=384)
    p.add_argument("--dim", type=int, default=768)
    p.add_argument("--n_layers", type=int, default=6)
    p.add_argument("--vocab", type=int, default=30522)
    p.add_argument("--bf16", type=int, default=1)
    a = p.parse_args()
    set_seed(42)
    model = DistilBertForQuestionAnswering(
        DistilBertConfig(
            vocab_size=a.vocab,
            dim=a.dim,
            hidden_dim=4 * a.dim,
            n_layers=a.n_layers,
            n_heads=a.dim // 64,
            max_position_embeddings=a.max_length,
        )
    )
    with tempfile.TemporaryDirectory() as out:
        trainer = Trainer(
            model,
            TrainingArguments(
                out,
                per_device_train_batch_size=a.train_batch,
                per_device_eval_batch_size=a.eval_batch,
                learning_rate=3e-5,
                max_steps=6,
                bf16=bool(a.bf16),
                eval_strategy="steps",
                eval_steps=3,
                save_strategy="no",
                logging_steps=3,
                label_names=["start_positions", "end_positions"],
                report_to=[],
                disable_tqdm=True,
            ),
            train_dataset=FakeSquad(8 * a.train_batch, a.max_length, a.vocab, 1),
            eval_dataset=FakeSquad(2 * a.eval_batch + 3, a.max_length, a.vocab, 2),
            data_collator=default_data_collator,
            compute_metrics=compute_metrics,
        )
        trainer.train()
        print(trainer.evaluate())


if __name__ == "__main__":
    main()
