"""Instruction tuning of a small Qwen3 with accelerate: warm-up, clipping, loss on answers only."""

import argparse
import random
import tempfile

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader
from transformers import Qwen3Config, Qwen3ForCausalLM, get_cosine_schedule_with_warmup


def make_examples(n, longest, vocab, seed):
    rng = random.Random(seed)
    examples = []
    for _ in range(n):
        question = [rng.randrange(10, vocab) for _ in range(rng.randint(8, longest // 3))]
        answer = [rng.randrange(10, vocab) for _ in range(rng.randint(8, 2 * longest // 3))]
        examples.append((question, [*answer, 1]))
    return examples


def collate(batch):
    longest = max(len(q) + len(a) for q, a in batch)
    ids, mask, labels = [], [], []
    for q, a in batch:
        pad = longest - len(q) - len(a)
        ids.append(q + a + [0] * pad)
        mask.append([1] * (len(q) + len(a)) + [0] * pad)
        labels.append([-100] * len(q) + a + [-100] * pad)
    return {
        "input_ids": torch.tensor(ids),
        "attention_mask": torch.tensor(mask),
        "labels": torch.tensor(labels),
    }


def evaluate(accelerator, model, loader):
    model.eval()
    losses = []
    for batch in loader:
        with torch.no_grad():
            loss = model(**batch).loss
        losses.append(accelerator.gather_for_metrics(loss.repeat(len(batch["input_ids"]))))
    model.train()
    return torch.cat(losses).mean().item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--longest", type=int, default=768)
    parser.add_argument("--hidden", type=int, default=896)
    parser.add_argument("--layers", type=int, default=10)
    parser.add_argument("--vocab", type=int, default=60000)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--clip", type=float, default=0.5)
    args = parser.parse_args()

    accelerator = Accelerator(mixed_precision="bf16")
    set_seed(3)
    config = Qwen3Config(
        vocab_size=args.vocab,
        hidden_size=args.hidden,
        intermediate_size=3 * args.hidden,
        num_hidden_layers=args.layers,
        num_attention_heads=args.hidden // 64,
        num_key_value_heads=2,
        head_dim=64,
        tie_word_embeddings=True,
    )
    model = Qwen3ForCausalLM(config)

    no_decay = [p for n, p in model.named_parameters() if p.ndim < 2]
    decay = [p for n, p in model.named_parameters() if p.ndim >= 2]
    optimizer = torch.optim.AdamW(
        [{"params": decay, "weight_decay": 0.05}, {"params": no_decay, "weight_decay": 0.0}],
        lr=2e-5,
        betas=(0.9, 0.98),
    )
    train = make_examples(args.steps * args.batch_size, args.longest, args.vocab, 0)
    valid = make_examples(2 * args.batch_size, args.longest, args.vocab, 1)
    train = DataLoader(train, args.batch_size, shuffle=True, collate_fn=collate, drop_last=True)
    valid = DataLoader(valid, args.batch_size, collate_fn=collate)
    scheduler = get_cosine_schedule_with_warmup(optimizer, 2, args.steps)
    model, optimizer, train, valid, scheduler = accelerator.prepare(
        model, optimizer, train, valid, scheduler
    )

    model.train()
    total = torch.zeros((), device=accelerator.device)
    for step, batch in enumerate(train):
        out = model(**batch)
        total += out.loss.detach()
        accelerator.backward(out.loss)
        norm = accelerator.clip_grad_norm_(model.parameters(), args.clip)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        accelerator.print(
            f"step {step} loss {total.item() / (step + 1):.3f} norm {norm.item():.2f} "
            f"lr {scheduler.get_last_lr()[0]:.2e}"
        )
        if step == args.steps // 2:
            accelerator.print("validation", evaluate(accelerator, model, valid))
    accelerator.print("validation", evaluate(accelerator, model, valid))
    with tempfile.TemporaryDirectory() as folder:
        accelerator.unwrap_model(model).save_pretrained(folder)


if __name__ == "__main__":
    main()
