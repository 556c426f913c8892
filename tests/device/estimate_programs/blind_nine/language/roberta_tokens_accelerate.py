"""Named entities with RoBERTa and Accelerate (no mixed precision), evaluated after each epoch."""

import argparse

import torch
from accelerate import Accelerator
from torch.optim import AdamW
from torch.utils.data import DataLoader, Dataset
from transformers import RobertaConfig, RobertaForTokenClassification, get_scheduler


class Sentences(Dataset):
    def __init__(self, count, longest, vocab, tags):
        self.lengths = torch.randint(longest // 4, longest + 1, (count,)).tolist()
        self.vocab, self.tags = vocab, tags

    def __len__(self):
        return len(self.lengths)

    def __getitem__(self, i):
        length = self.lengths[i]
        return torch.randint(3, self.vocab, (length,)), torch.randint(0, self.tags, (length,))


def collate(rows):
    words, tags = zip(*rows)
    ids = torch.nn.utils.rnn.pad_sequence(words, batch_first=True, padding_value=1)
    labels = torch.nn.utils.rnn.pad_sequence(tags, batch_first=True, padding_value=-100)
    return {"input_ids": ids, "attention_mask": (ids != 1).long(), "labels": labels}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--longest", type=int, default=256)
    parser.add_argument("--hidden", type=int, default=768)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--vocab", type=int, default=50265)
    parser.add_argument("--batches", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=2)
    args = parser.parse_args()
    torch.manual_seed(11)
    accelerator = Accelerator()
    model = RobertaForTokenClassification(
        RobertaConfig(
            vocab_size=args.vocab,
            hidden_size=args.hidden,
            num_hidden_layers=args.layers,
            num_attention_heads=args.hidden // 64,
            intermediate_size=4 * args.hidden,
            max_position_embeddings=514,
            type_vocab_size=1,
            num_labels=9,
        )
    )
    count = args.batch_size * args.batches
    train = DataLoader(
        Sentences(count, args.longest, args.vocab, 9),
        args.batch_size,
        shuffle=True,
        collate_fn=collate,
    )
    held = DataLoader(
        Sentences(args.batch_size, args.longest, args.vocab, 9),
        args.batch_size // 2,
        collate_fn=collate,
    )
    optimizer = AdamW(model.parameters(), lr=3e-5)
    model, optimizer, train, held = accelerator.prepare(model, optimizer, train, held)
    steps = args.epochs * len(train)
    schedule = get_scheduler("linear", optimizer, num_warmup_steps=0, num_training_steps=steps)
    for epoch in range(args.epochs):
        model.train()
        for batch in train:
            loss = model(**batch).loss
            accelerator.backward(loss)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        model.eval()
        right = total = 0
        for batch in held:
            with torch.no_grad():
                logits = model(**batch).logits
            predicted = accelerator.pad_across_processes(logits.argmax(-1), dim=1, pad_index=-100)
            predicted, labels = accelerator.gather((predicted, batch["labels"]))
            known = labels != -100
            right += (predicted[known] == labels[known]).sum().item()
            total += known.sum().item()
        print(f"epoch {epoch} loss {loss.item():.3f} accuracy {right / total:.3f}")


if __name__ == "__main__":
    main()
