"""Electricity load with a temporal convolutional network: weight norm, quantiles, coverage."""

import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.parametrizations import weight_norm
from torch.utils.data import DataLoader, Dataset


class Chomp1d(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size = size

    def forward(self, x):
        return x[:, :, : -self.size].contiguous()


class TemporalBlock(nn.Module):
    def __init__(self, c_in, c_out, kernel, dilation, dropout):
        super().__init__()
        padding = (kernel - 1) * dilation
        self.net = nn.Sequential(
            weight_norm(nn.Conv1d(c_in, c_out, kernel, padding=padding, dilation=dilation)),
            Chomp1d(padding),
            nn.ReLU(),
            nn.Dropout(dropout),
            weight_norm(nn.Conv1d(c_out, c_out, kernel, padding=padding, dilation=dilation)),
            Chomp1d(padding),
            nn.ReLU(),
            nn.Dropout(dropout),
        )
        self.downsample = nn.Conv1d(c_in, c_out, 1) if c_in != c_out else None

    def forward(self, x):
        res = x if self.downsample is None else self.downsample(x)
        return F.relu(self.net(x) + res)


class TCN(nn.Module):
    def __init__(self, inputs, channels, levels, kernel, horizon, quantiles, dropout=0.1):
        super().__init__()
        sizes = [inputs] + [channels] * levels
        self.blocks = nn.Sequential(
            *[TemporalBlock(sizes[i], sizes[i + 1], kernel, 2**i, dropout) for i in range(levels)]
        )
        self.out = nn.Linear(channels, horizon * quantiles)
        self.horizon, self.quantiles = horizon, quantiles

    def forward(self, x):
        h = self.blocks(x)[:, :, -1]
        return self.out(h).view(-1, self.horizon, self.quantiles)


class Load(Dataset):
    def __init__(self, meters, hours, context, horizon):
        t = torch.arange(hours).float()
        phase = torch.rand(meters, 1) * 6.28
        day = torch.sin(2 * math.pi * t / 24 + phase)
        week = torch.sin(2 * math.pi * t / 168 + phase)
        self.values = day + 0.5 * week + 0.1 * torch.randn(meters, hours)
        self.calendar = torch.stack([torch.sin(t / 24), torch.cos(t / 24), t / hours])
        self.context, self.horizon = context, horizon
        self.windows = hours - context - horizon

    def __len__(self):
        return self.windows * len(self.values)

    def __getitem__(self, i):
        meter, start = i // self.windows, i % self.windows
        middle, end = start + self.context, start + self.context + self.horizon
        past = self.values[meter, start:middle]
        x = torch.cat([past[None], self.calendar[:, start:middle]])
        return x, self.values[meter, middle:end]


def pinball(guess, real, levels):
    error = real.unsqueeze(-1) - guess
    return torch.maximum(levels * error, (levels - 1) * error).mean()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--context", type=int, default=672)
    parser.add_argument("--horizon", type=int, default=24)
    parser.add_argument("--channels", type=int, default=96)
    parser.add_argument("--levels", type=int, default=7)
    parser.add_argument("--steps", type=int, default=5)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    data = Load(20, 2 * args.context + args.horizon, args.context, args.horizon)
    loader = DataLoader(data, args.batch_size, shuffle=True, drop_last=True)
    model = TCN(4, args.channels, args.levels, 5, args.horizon, 3).to(device)
    levels = torch.tensor([0.1, 0.5, 0.9], device=device)
    optimizer = torch.optim.RAdam(model.parameters(), lr=2e-3)
    scheduler = torch.optim.lr_scheduler.CyclicLR(
        optimizer, 1e-4, 2e-3, step_size_up=2, cycle_momentum=False
    )
    model.train()
    for step, (x, y) in enumerate(loader):
        if step == args.steps:
            break
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        loss = pinball(model(x), y, levels)
        loss.backward()
        nn.utils.clip_grad_value_(model.parameters(), 0.5)
        optimizer.step()
        scheduler.step()
        print(f"step {step} loss {loss.item():.4f} lr {scheduler.get_last_lr()[0]:.1e}")

    model.eval()
    covered = []
    with torch.no_grad():
        for i, (x, y) in enumerate(loader):
            guess = model(x.to(device)).cpu()
            covered.append(((y >= guess[..., 0]) & (y <= guess[..., 2])).float().mean().item())
            if i == 2:
                break
    print(f"80 % interval covers {sum(covered) / len(covered):.1%}")
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "/dev/null")


if __name__ == "__main__":
    main()
