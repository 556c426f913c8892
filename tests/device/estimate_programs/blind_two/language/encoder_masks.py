"""Classifies reviews with nn.TransformerEncoder and padding masks; evaluation is the fast path."""

import argparse
import copy
import math

import torch
from torch import nn, optim
from torch.utils.data import DataLoader, Dataset


class Reviews(Dataset):
    def __init__(self, count, longest, words, seed):
        gen = torch.Generator().manual_seed(seed)
        lengths = torch.randint(longest // 8, longest + 1, (count,), generator=gen)
        self.reviews = [torch.randint(1, words, (int(n),), generator=gen) for n in lengths]
        self.stars = torch.randint(0, 5, (count,), generator=gen)

    def __len__(self):
        return len(self.reviews)

    def __getitem__(self, i):
        return self.reviews[i], self.stars[i]


def collate(rows):
    reviews, stars = zip(*rows)
    return nn.utils.rnn.pad_sequence(reviews, batch_first=True), torch.stack(stars)


class PositionalEncoding(nn.Module):
    def __init__(self, size, longest=1024):
        super().__init__()
        position = torch.arange(longest).unsqueeze(1)
        term = torch.exp(torch.arange(0, size, 2) * (-math.log(10000.0) / size))
        pe = torch.zeros(1, longest, size)
        pe[0, :, 0::2] = torch.sin(position * term)
        pe[0, :, 1::2] = torch.cos(position * term)
        self.register_buffer("pe", pe)

    def forward(self, x):
        return x + self.pe[:, : x.size(1)]


class Classifier(nn.Module):
    def __init__(self, words, size, heads, feedforward, layers):
        super().__init__()
        self.embed = nn.Embedding(words, size, padding_idx=0)
        self.position = PositionalEncoding(size)
        layer = nn.TransformerEncoderLayer(size, heads, feedforward, 0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers)
        self.head = nn.Linear(size, 5)

    def forward(self, ids):
        padding = ids == 0
        x = self.encoder(self.position(self.embed(ids)), src_key_padding_mask=padding)
        x = x.masked_fill(padding.unsqueeze(-1), 0.0)
        return self.head(x.sum(1) / (~padding).sum(1, keepdim=True))


def run_epoch(model, loader, device, loss_fn, optimizer=None):
    model.train(optimizer is not None)
    total, right, n = 0.0, 0, 0
    for ids, stars in loader:
        ids, stars = ids.to(device), stars.to(device)
        with torch.set_grad_enabled(optimizer is not None):
            out = model(ids)
            loss = loss_fn(out, stars)
        if optimizer is not None:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        total += loss.item() * len(ids)
        right += (out.argmax(1) == stars).sum().item()
        n += len(ids)
    return total / n, right / n


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--longest", type=int, default=320)
    parser.add_argument("--words", type=int, default=30000)
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--batches", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=2)
    args = parser.parse_args()
    torch.manual_seed(11)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    train = Reviews(args.batches * args.batch_size, args.longest, args.words, 0)
    valid = Reviews(3 * args.batch_size, args.longest, args.words, 1)
    train = DataLoader(train, args.batch_size, shuffle=True, collate_fn=collate)
    valid = DataLoader(valid, 2 * args.batch_size, collate_fn=collate)
    model = Classifier(args.words, args.size, 8, 4 * args.size, args.layers).to(device)
    optimizer = optim.Adam(model.parameters(), lr=1e-4)
    scheduler = optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)
    loss_fn = nn.CrossEntropyLoss(label_smoothing=0.1)
    best, best_state = float("inf"), None
    for epoch in range(args.epochs):
        train_loss, train_acc = run_epoch(model, train, device, loss_fn, optimizer)
        loss, acc = run_epoch(model, valid, device, loss_fn)
        scheduler.step(loss)
        print(f"{epoch} train {train_loss:.3f} {train_acc:.3f} valid {loss:.3f} {acc:.3f}")
        if loss < best:
            best, best_state = loss, copy.deepcopy(model.state_dict())
    model.load_state_dict(best_state)
    print("best", best)


if __name__ == "__main__":
    main()
