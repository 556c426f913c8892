"""Sentence pairs with BERT, as the examples without Trainer do it: Accelerate in fp16, batches
padded to their longest row, accuracy after each epoch.
"""

import argparse
import random

import torch
from accelerate import Accelerator
from torch.optim import AdamW
from torch.utils.data import DataLoader
from transformers import BertConfig, BertForSequenceClassification, get_linear_schedule_with_warmup


def make_rows(count, longest, vocab, seed):
    rng = random.Random(seed)
    rows = []
    for _ in range(count):
        a, b = rng.randint(5, longest // 2 - 2), rng.randint(5, longest // 2 - 2)
        words = [rng.randrange(1000 % vocab, vocab) for _ in range(a + b)]
        ids = [1, *words[:a], 2, *words[a:], 2]
        rows.append((ids, [0] * (a + 2) + [1] * (b + 1), int(words[0] > vocab // 2)))
    return rows


def collate(rows):
    longest = max(len(ids) for ids, _, _ in rows)
    batch = {
        "input_ids": torch.zeros(len(rows), longest, dtype=torch.long),
        "token_type_ids": torch.zeros(len(rows), longest, dtype=torch.long),
        "attention_mask": torch.zeros(len(rows), longest, dtype=torch.long),
        "labels": torch.tensor([label for _, _, label in rows]),
    }
    for i, (ids, kinds, _) in enumerate(rows):
        batch["input_ids"][i, : len(ids)] = torch.tensor(ids)
        batch["token_type_ids"][i, : len(ids)] = torch.tensor(kinds)
        batch["attention_mask"][i, : len(ids)] = 1
    return batch


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--eval-batch-size", type=int, default=128)
    parser.add_argument("--longest", type=int, default=256)
    parser.add_argument("--hidden", type=int, default=768)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--vocab", type=int, default=30522)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batches", type=int, default=3)
    parser.add_argument("--mixed-precision", default="fp16")
    args = parser.parse_args()
    torch.manual_seed(0)
    accelerator = Accelerator(mixed_precision=args.mixed_precision)
    config = BertConfig(
        vocab_size=args.vocab,
        hidden_size=args.hidden,
        num_hidden_layers=args.layers,
        num_attention_heads=args.hidden // 64,
        intermediate_size=4 * args.hidden,
        num_labels=2,
    )
    model = BertForSequenceClassification(config)
    train_rows = make_rows(args.batch_size * args.batches, args.longest, args.vocab, 0)
    eval_rows = make_rows(args.eval_batch_size + 9, args.longest, args.vocab, 1)
    train = DataLoader(train_rows, args.batch_size, shuffle=True, collate_fn=collate)
    held_out = DataLoader(eval_rows, args.eval_batch_size, collate_fn=collate)
    optimizer = AdamW(model.parameters(), lr=2e-5)
    model, optimizer, train, held_out = accelerator.prepare(model, optimizer, train, held_out)
    schedule = get_linear_schedule_with_warmup(optimizer, 2, args.epochs * len(train))

    for epoch in range(args.epochs):
        model.train()
        for batch in train:
            outputs = model(**batch)
            accelerator.backward(outputs.loss)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        model.eval()
        right = []
        for batch in held_out:
            with torch.no_grad():
                outputs = model(**batch)
            guess = outputs.logits.argmax(dim=-1)
            guess, labels = accelerator.gather_for_metrics((guess, batch["labels"]))
            right.append((guess == labels).float())
        accelerator.print(f"epoch {epoch}: accuracy {torch.cat(right).mean().item():.3f}")


if __name__ == "__main__":
    main()
