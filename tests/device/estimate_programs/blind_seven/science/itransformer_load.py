"""iTransformer for the load of many electricity meters: one token a meter, attention across meters,
windows normalised one by one, early stopping on a validation set.
"""

import argparse

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset


class LoadSeries(Dataset):
    """Sliding windows over a table of hours by meters, with features of the calendar."""

    def __init__(self, table, past, ahead, start, stop):
        self.table, self.past, self.ahead = table, past, ahead
        self.start, self.stop = start, stop
        hours = np.arange(len(table))
        marks = [hours % 24 / 23 - 0.5, hours // 24 % 7 / 6 - 0.5, hours // 24 % 365 / 364 - 0.5]
        self.marks = np.stack(marks, axis=1).astype(np.float32)

    def __len__(self):
        return self.stop - self.start - self.past - self.ahead + 1

    def __getitem__(self, i):
        a = self.start + i
        b = a + self.past
        return self.table[a:b], self.marks[a:b], self.table[b : b + self.ahead]


class EncoderLayer(nn.Module):
    def __init__(self, width, heads, hidden, dropout):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)
        self.conv1 = nn.Conv1d(width, hidden, 1)
        self.conv2 = nn.Conv1d(hidden, width, 1)
        self.norm1 = nn.LayerNorm(width)
        self.norm2 = nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)

    def attention(self, x):
        B, N, C = x.shape
        q, k, v = (f(x).view(B, N, self.heads, -1) for f in (self.query, self.key, self.value))
        scores = torch.einsum("blhe,bshe->bhls", q, k) * (C // self.heads) ** -0.5
        weights = self.dropout(torch.softmax(scores, dim=-1))
        return self.out(torch.einsum("bhls,bshd->blhd", weights, v).reshape(B, N, C))

    def forward(self, x):
        x = self.norm1(x + self.dropout(self.attention(x)))
        y = self.dropout(torch.nn.functional.gelu(self.conv1(x.transpose(1, 2))))
        return self.norm2(x + self.dropout(self.conv2(y)).transpose(1, 2))


class ITransformer(nn.Module):
    def __init__(self, past, ahead, width, heads, hidden, layers, dropout=0.1):
        super().__init__()
        self.embed = nn.Linear(past, width)
        self.layers = nn.ModuleList(
            EncoderLayer(width, heads, hidden, dropout) for _ in range(layers)
        )
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, ahead)

    def forward(self, x, marks):
        mean = x.mean(dim=1, keepdim=True).detach()
        x = x - mean
        std = torch.sqrt(x.var(dim=1, keepdim=True, unbiased=False) + 1e-5)
        x = x / std
        tokens = self.embed(torch.cat([x, marks], dim=-1).transpose(1, 2))
        for layer in self.layers:
            tokens = layer(tokens)
        out = self.head(self.norm(tokens)).transpose(1, 2)[:, :, : x.shape[-1]]
        return out * std + mean


def make_table(hours, meters, seed):
    rng = np.random.default_rng(seed)
    t = np.arange(hours)[:, None]
    shift = rng.uniform(0, 24, (1, meters))
    daily = np.sin(2 * np.pi * (t + shift) / 24) * rng.uniform(0.5, 1.5, (1, meters))
    weekly = np.cos(2 * np.pi * t / 168) * rng.uniform(0.1, 0.6, (1, meters))
    noise = rng.standard_normal((hours, meters)) * 0.2
    return (daily + weekly + noise).astype(np.float32)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--seq_len", type=int, default=336)
    parser.add_argument("--pred_len", type=int, default=96)
    parser.add_argument("--meters", type=int, default=862)
    parser.add_argument("--d_model", type=int, default=512)
    parser.add_argument("--n_heads", type=int, default=8)
    parser.add_argument("--d_ff", type=int, default=2048)
    parser.add_argument("--e_layers", type=int, default=3)
    parser.add_argument("--train_epochs", type=int, default=2)
    parser.add_argument("--steps_per_epoch", type=int, default=4)
    parser.add_argument("--patience", type=int, default=3)
    args = parser.parse_args()

    torch.manual_seed(2021)
    device = torch.device("cuda:0")
    window = args.seq_len + args.pred_len
    train_hours = window + args.steps_per_epoch * args.batch_size
    table = make_table(train_hours + window + 2 * args.batch_size, args.meters, seed=1)
    train_set = LoadSeries(table, args.seq_len, args.pred_len, 0, train_hours)
    val_set = LoadSeries(table, args.seq_len, args.pred_len, train_hours, len(table))
    train_loader = DataLoader(
        train_set, batch_size=args.batch_size, shuffle=True, drop_last=True, num_workers=1
    )
    val_loader = DataLoader(val_set, batch_size=args.batch_size, drop_last=False)

    model = ITransformer(
        args.seq_len, args.pred_len, args.d_model, args.n_heads, args.d_ff, args.e_layers
    ).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    criterion = nn.MSELoss()
    best, waited = float("inf"), 0
    for epoch in range(args.train_epochs):
        model.train()
        train_losses = []
        for batch_x, batch_mark, batch_y in train_loader:
            optimizer.zero_grad()
            outputs = model(batch_x.float().to(device), batch_mark.float().to(device))
            loss = criterion(outputs, batch_y.float().to(device))
            train_losses.append(loss.item())
            loss.backward()
            optimizer.step()
        model.eval()
        val_losses = []
        with torch.no_grad():
            for batch_x, batch_mark, batch_y in val_loader:
                outputs = model(batch_x.to(device), batch_mark.to(device))
                val_losses.append(criterion(outputs.cpu(), batch_y).item())
        val_loss = np.average(val_losses)
        print(f"Epoch {epoch + 1} train {np.average(train_losses):.5f} val {val_loss:.5f}")
        if val_loss < best:
            best, waited = val_loss, 0
        else:
            waited += 1
        if waited >= args.patience:
            print("early stopping")
            break
        for group in optimizer.param_groups:
            group["lr"] = 1e-4 * 0.5**epoch


if __name__ == "__main__":
    main()
