"""Fine-tunes a BERT classifier on sentences of varying length, padded per batch."""

import argparse
import random

import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset
from transformers import BertConfig, BertForSequenceClassification, get_linear_schedule_with_warmup

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Reviews(Dataset):
    def __init__(self, count, longest, vocab_size, seed):
        rng = random.Random(seed)
        self.examples = []
        for _ in range(count):
            length = rng.randint(longest // 8, longest)
            words = [rng.randrange(1000, vocab_size) for _ in range(length - 2)]
            self.examples.append(([101, *words, 102], rng.randrange(5)))

    def __len__(self):
        return len(self.examples)

    def __getitem__(self, index):
        return self.examples[index]


def collate(examples):
    ids = pad_sequence([torch.tensor(words) for words, _ in examples], batch_first=True)
    labels = torch.tensor([label for _, label in examples])
    return {"input_ids": ids, "attention_mask": (ids != 0).long(), "labels": labels}


def train_epoch(model, loader, optimizer, scheduler, epoch):
    model.train()
    for step, batch in enumerate(loader):
        batch = {key: value.to(device) for key, value in batch.items()}
        output = model(**batch)
        output.loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        print(f"epoch {epoch} step {step} loss {output.loss.item():.4f} norm {norm.item():.3f}")


@torch.inference_mode()
def accuracy(model, loader):
    model.eval()
    right = total = 0
    for batch in loader:
        labels = batch.pop("labels").to(device)
        logits = model(**{key: value.to(device) for key, value in batch.items()}).logits
        right += (logits.argmax(-1) == labels).sum().item()
        total += len(labels)
    return right / total


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--longest", type=int, default=384)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    random.seed(args.seed)
    torch.manual_seed(args.seed)

    config = BertConfig(
        hidden_size=args.width,
        num_hidden_layers=args.layers,
        num_attention_heads=args.width // 64,
        intermediate_size=4 * args.width,
        num_labels=5,
    )
    model = BertForSequenceClassification(config).to(device)
    train = Reviews(args.batch_size * args.steps, args.longest, config.vocab_size, args.seed)
    test = Reviews(args.batch_size * 2, args.longest, config.vocab_size, args.seed + 1)
    train_loader = DataLoader(train, args.batch_size, shuffle=True, collate_fn=collate)
    test_loader = DataLoader(test, 2 * args.batch_size, collate_fn=collate)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5)
    scheduler = get_linear_schedule_with_warmup(optimizer, 2, args.steps * args.epochs)
    for epoch in range(args.epochs):
        train_epoch(model, train_loader, optimizer, scheduler, epoch)
        print(f"epoch {epoch} accuracy {accuracy(model, test_loader):.3f}")


if __name__ == "__main__":
    main()
