"""Named entities with XLM-RoBERTa, after run_ner_no_trainer.py: accelerate, bf16, evaluation."""

import argparse

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader
from transformers import XLMRobertaConfig, XLMRobertaForTokenClassification, get_scheduler


def sentences(count, longest, vocab, labels, seed):
    g = torch.Generator().manual_seed(seed)
    rows = []
    for _ in range(count):
        n = int(torch.randint(8, longest + 1, (1,), generator=g))
        words = torch.randint(5, vocab, (n,), generator=g)
        tags = torch.randint(0, labels, (n,), generator=g)
        tags[torch.rand(n, generator=g) < 0.3] = -100  # pieces of a word after its first
        rows.append((words, tags))
    return rows


def collate(rows):
    pad = torch.nn.utils.rnn.pad_sequence
    ids = pad([r[0] for r in rows], batch_first=True, padding_value=1)
    tags = pad([r[1] for r in rows], batch_first=True, padding_value=-100)
    return {"input_ids": ids, "attention_mask": (ids != 1).long(), "labels": tags}


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--per_device_batch", type=int, default=32)
    parser.add_argument("--longest", type=int, default=160)
    parser.add_argument("--hidden", type=int, default=768)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--vocab", type=int, default=100_000)
    parser.add_argument("--precision", default="bf16")
    parser.add_argument("--epochs", type=int, default=2)
    return parser.parse_args()


def main():
    args = parse_args()
    set_seed(11)
    accelerator = Accelerator(mixed_precision=args.precision)
    config = XLMRobertaConfig(
        vocab_size=args.vocab,
        hidden_size=args.hidden,
        num_hidden_layers=args.layers,
        num_attention_heads=args.hidden // 64,
        intermediate_size=4 * args.hidden,
        max_position_embeddings=args.longest + 2,
        num_labels=9,
    )
    model = XLMRobertaForTokenClassification(config)
    train = sentences(4 * args.per_device_batch, args.longest, args.vocab, 9, seed=0)
    held = sentences(2 * args.per_device_batch, args.longest, args.vocab, 9, seed=1)
    train_loader = DataLoader(train, args.per_device_batch, shuffle=True, collate_fn=collate)
    eval_loader = DataLoader(held, args.per_device_batch, collate_fn=collate)
    no_decay = ("bias", "LayerNorm.weight")
    named = list(model.named_parameters())
    groups = [
        {"params": [p for n, p in named if not n.endswith(no_decay)], "weight_decay": 0.01},
        {"params": [p for n, p in named if n.endswith(no_decay)], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=5e-5)
    model, optimizer, train_loader, eval_loader = accelerator.prepare(
        model, optimizer, train_loader, eval_loader
    )
    schedule = get_scheduler("linear", optimizer, 0, args.epochs * len(train_loader))
    for epoch in range(args.epochs):
        model.train()
        total = 0.0
        for batch in train_loader:
            loss = model(**batch).loss
            total += loss.detach().float()
            accelerator.backward(loss)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        model.eval()
        right = seen = 0
        for batch in eval_loader:
            with torch.no_grad():
                guesses = model(**batch).logits.argmax(dim=-1)
            guesses, labels = accelerator.gather_for_metrics((guesses, batch["labels"]))
            known = labels != -100
            right += ((guesses == labels) & known).sum().item()
            seen += known.sum().item()
        accelerator.print(f"epoch {epoch}: loss {total.item():.2f}, accuracy {right / seen:.3f}")


if __name__ == "__main__":
    main()
