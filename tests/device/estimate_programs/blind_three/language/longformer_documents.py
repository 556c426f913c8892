"""Classifies long documents with Longformer: local windows, global attention on the first token."""

import argparse

import torch
from torch.utils.data import DataLoader, Dataset
from transformers import (
    LongformerConfig,
    LongformerForSequenceClassification,
    get_polynomial_decay_schedule_with_warmup,
)


class Documents(Dataset):
    def __init__(self, n, longest, vocab, classes):
        self.lengths = torch.randint(longest // 2, longest + 1, (n,)).tolist()
        self.longest, self.vocab, self.classes = longest, vocab, classes

    def __len__(self):
        return len(self.lengths)

    def __getitem__(self, i):
        length = self.lengths[i]
        ids = torch.ones(self.longest, dtype=torch.long)
        ids[:length] = torch.randint(4, self.vocab, (length,))
        mask = (torch.arange(self.longest) < length).long()
        everywhere = torch.zeros_like(mask)
        everywhere[0] = 1
        return {
            "input_ids": ids,
            "attention_mask": mask,
            "global_attention_mask": everywhere,
            "labels": torch.randint(self.classes, ()),
        }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=3)
    parser.add_argument("--longest", type=int, default=3072)
    parser.add_argument("--window", type=int, default=256)
    parser.add_argument("--hidden", type=int, default=512)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--vocab", type=int, default=40000)
    parser.add_argument("--classes", type=int, default=12)
    parser.add_argument("--steps", type=int, default=3)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    config = LongformerConfig(
        vocab_size=args.vocab,
        hidden_size=args.hidden,
        num_hidden_layers=args.layers,
        num_attention_heads=args.hidden // 64,
        intermediate_size=4 * args.hidden,
        attention_window=args.window,
        max_position_embeddings=args.longest + 2,
        type_vocab_size=1,
        pad_token_id=1,
        num_labels=args.classes,
    )
    model = LongformerForSequenceClassification(config).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5, amsgrad=True)
    schedule = get_polynomial_decay_schedule_with_warmup(optimizer, 1, args.steps + 1)
    data = Documents((args.steps + 1) * args.batch_size, args.longest, args.vocab, args.classes)
    loader = DataLoader(data, args.batch_size)
    for step, batch in enumerate(loader):
        batch = {name: value.to(device, non_blocking=True) for name, value in batch.items()}
        if step == args.steps:
            model.eval()
            with torch.no_grad():
                guess = model(**batch).logits.argmax(-1)
            print("held out:", (guess == batch["labels"]).float().mean().item())
            break
        model.train()
        loss = model(**batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_value_(model.parameters(), 0.5)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        print(f"step {step}: {loss.item():.4f}")


if __name__ == "__main__":
    main()
