"""Reads reviews word by word with a packed bidirectional GRU, averages weights, clips the norm."""

import argparse

import torch
import torch.nn as nn
from torch.nn.utils.rnn import pack_sequence, pad_packed_sequence
from torch.optim.swa_utils import SWALR, AveragedModel
from torch.utils.data import DataLoader


class Reader(nn.Module):
    def __init__(self, words, dim, hidden, layers, ratings):
        super().__init__()
        self.embed = nn.Embedding(words, dim, padding_idx=0, max_norm=4.0)
        self.gru = nn.GRU(dim, hidden, layers, dropout=0.2, bidirectional=True)
        self.attend = nn.Sequential(nn.Linear(2 * hidden, 128), nn.Tanh(), nn.Linear(128, 1))
        self.out = nn.Linear(4 * hidden, ratings)

    def forward(self, packed):
        embedded = packed._replace(data=self.embed(packed.data))
        outputs, last = self.gru(embedded)
        padded, lengths = pad_packed_sequence(outputs, batch_first=True)
        scores = self.attend(padded).squeeze(-1)
        empty = torch.arange(padded.size(1))[None, :] >= lengths[:, None]
        scores = scores.masked_fill(empty.to(scores.device), float("-inf"))
        pooled = (scores.softmax(1).unsqueeze(-1) * padded).sum(1)
        return self.out(torch.cat([pooled, last[-2], last[-1]], dim=1))


def collate(rows):
    texts, ratings = zip(*rows)
    return pack_sequence(texts, enforce_sorted=False), torch.tensor(ratings)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=192)
    parser.add_argument("--longest", type=int, default=400)
    parser.add_argument("--words", type=int, default=100000)
    parser.add_argument("--dim", type=int, default=300)
    parser.add_argument("--hidden", type=int, default=512)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--steps", type=int, default=5)
    args = parser.parse_args()
    torch.manual_seed(3)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    rows = []
    for _ in range(args.steps * args.batch_size):
        length = int(torch.randint(args.longest // 8, args.longest + 1, ()))
        rows.append((torch.randint(1, args.words, (length,)), int(torch.randint(5, ()))))
    loader = DataLoader(rows, args.batch_size, collate_fn=collate)
    model = Reader(args.words, args.dim, args.hidden, args.layers, 5).to(device)
    averaged = AveragedModel(model)
    optimizer = torch.optim.Adamax(model.parameters(), lr=2e-3)
    rate = SWALR(optimizer, swa_lr=1e-3, anneal_epochs=3)
    loss_function = nn.CrossEntropyLoss()
    for step, (texts, ratings) in enumerate(loader):
        texts, ratings = texts.to(device), ratings.to(device)
        loss = loss_function(model(texts), ratings)
        model.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        if step >= 1:
            averaged.update_parameters(model)
            rate.step()
        print(f"step {step}: loss {loss.item():.4f}, norm {norm.item():.3f}")
    averaged.eval()
    with torch.no_grad():
        texts, ratings = collate(rows[: args.batch_size])
        right = averaged(texts.to(device)).argmax(1).cpu() == ratings
    print(f"accuracy of the average: {right.float().mean().item():.3f}")


if __name__ == "__main__":
    main()
