"""Forecasts of many series with an LSTM encoder and decoder, float32, early stopping on a held-out
loss, the best weights kept aside.
"""

import argparse
import copy

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Windows(Dataset):
    def __init__(self, series, history, horizon):
        self.series, self.history, self.horizon = series, history, horizon

    def __len__(self):
        return self.series.shape[0]

    def __getitem__(self, i):
        row = self.series[i]
        return row[: self.history], row[self.history : self.history + self.horizon]


class Forecaster(nn.Module):
    def __init__(self, features, hidden, layers, horizon):
        super().__init__()
        self.encoder = nn.LSTM(features, hidden, layers, batch_first=True, dropout=0.2)
        self.decoder = nn.LSTM(features, hidden, layers, batch_first=True, dropout=0.2)
        self.head = nn.Linear(hidden, features)
        self.horizon = horizon

    def forward(self, x, target=None):
        _, state = self.encoder(x)
        step = x[:, -1:]
        if target is not None:
            inputs = torch.cat([step, target[:, :-1]], dim=1)
            return self.head(self.decoder(inputs, state)[0])
        answers = []
        for _ in range(self.horizon):
            y, state = self.decoder(step, state)
            step = self.head(y)
            answers.append(step)
        return torch.cat(answers, dim=1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--history", type=int, default=336)
    parser.add_argument("--horizon", type=int, default=48)
    parser.add_argument("--features", type=int, default=8)
    parser.add_argument("--hidden", type=int, default=512)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--batches", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=2)
    args = parser.parse_args()
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    shape = (args.batch_size * (args.batches + 1), args.history + args.horizon, args.features)
    series = torch.from_numpy(np.cumsum(rng.standard_normal(shape, dtype=np.float32) * 0.1, axis=1))
    held_out, train = series[: args.batch_size], series[args.batch_size :]
    device = torch.device("cuda")
    model = Forecaster(args.features, args.hidden, args.layers, args.horizon).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1)
    train_loader = DataLoader(
        Windows(train, args.history, args.horizon), args.batch_size, shuffle=True, pin_memory=True
    )
    val_loader = DataLoader(Windows(held_out, args.history, args.horizon), args.batch_size)
    best, kept = float("inf"), None
    for epoch in range(args.epochs):
        model.train()
        for x, y in train_loader:
            x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
            loss = nn.functional.smooth_l1_loss(model(x, y), y)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        model.eval()
        with torch.no_grad():
            total = sum(
                nn.functional.l1_loss(model(x.to(device)), y.to(device)).item()
                for x, y in val_loader
            )
        plateau.step(total)
        if total < best:
            best, kept = total, copy.deepcopy(model.state_dict())
        print(f"epoch {epoch} loss {loss.item():.4f} held out {total:.4f}")
    model.load_state_dict(kept)


if __name__ == "__main__":
    main()
