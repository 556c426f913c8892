"""ALBERT with shared layers for several labels per text; Trainer with its own loss and metrics."""

import argparse
import tempfile

import numpy as np
import torch
import torch.nn.functional as F
from transformers import (
    AlbertConfig,
    AlbertForSequenceClassification,
    Trainer,
    TrainingArguments,
    set_seed,
)


class FocalTrainer(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
        labels = inputs.pop("labels")
        outputs = model(**inputs)
        plain = F.binary_cross_entropy_with_logits(outputs.logits.float(), labels, reduction="none")
        loss = ((1 - torch.exp(-plain)) ** 2 * plain).mean()
        return (loss, outputs) if return_outputs else loss


def metrics(prediction):
    scores = 1 / (1 + np.exp(-prediction.predictions))
    return {"f": float(((scores > 0.5) == (prediction.label_ids > 0.5)).mean())}


def examples(count, length, vocab, labels):
    ids = torch.randint(5, vocab, (count, length))
    marks = (torch.rand(count, labels) < 0.1).float()
    return [
        {"input_ids": ids[i], "attention_mask": torch.ones_like(ids[i]), "labels": marks[i]}
        for i in range(count)
    ]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=24)
    parser.add_argument("--length", type=int, default=384)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--vocab", type=int, default=30000)
    parser.add_argument("--labels", type=int, default=90)
    parser.add_argument("--fp32", action="store_true")
    args = parser.parse_args()
    set_seed(1)
    model = AlbertForSequenceClassification(
        AlbertConfig(
            vocab_size=args.vocab,
            embedding_size=128,
            hidden_size=args.width,
            num_hidden_layers=args.layers,
            num_attention_heads=args.width // 64,
            intermediate_size=4 * args.width,
            max_position_embeddings=args.length,
            num_labels=args.labels,
            problem_type="multi_label_classification",
        )
    )
    trainer = FocalTrainer(
        model=model,
        args=TrainingArguments(
            output_dir=tempfile.mkdtemp(),
            per_device_train_batch_size=args.batch_size,
            per_device_eval_batch_size=args.batch_size,
            bf16=not args.fp32,
            max_steps=5,
            learning_rate=2e-5,
            eval_strategy="no",
            save_strategy="no",
            logging_steps=2,
            report_to="none",
            disable_tqdm=True,
        ),
        train_dataset=examples(5 * args.batch_size, args.length, args.vocab, args.labels),
        eval_dataset=examples(2 * args.batch_size, args.length, args.vocab, args.labels),
        compute_metrics=metrics,
    )
    trainer.train()
    print(trainer.evaluate())


if __name__ == "__main__":
    main()
