"""Forecasting with a patch transformer: instance norm, channel independence, early stopping."""

import argparse
import math

import torch
import torch.nn as nn


class PatchTransformer(nn.Module):
    def __init__(self, history, horizon, patch, stride, width, layers):
        super().__init__()
        self.patch, self.stride = patch, stride
        patches = (history - patch) // stride + 2
        self.pad = nn.ReplicationPad1d((0, stride))
        self.embed = nn.Linear(patch, width)
        self.position = nn.Parameter(torch.randn(patches, width) * 0.02)
        layer = nn.TransformerEncoderLayer(
            width, 8, 2 * width, dropout=0.2, activation="gelu", batch_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, layers, norm=nn.LayerNorm(width))
        self.head = nn.Sequential(
            nn.Flatten(-2), nn.Dropout(0.1), nn.Linear(patches * width, horizon)
        )

    def forward(self, x):
        mean = x.mean(-1, keepdim=True)
        deviation = torch.sqrt(x.var(-1, keepdim=True, unbiased=False) + 1e-5)
        x = self.pad((x - mean) / deviation)
        patches = x.unfold(-1, self.patch, self.stride)
        h = self.embed(patches) + self.position
        h = self.encoder(h.flatten(0, 1)).unflatten(0, x.shape[:2])
        return self.head(h) * deviation + mean


def series(args, device):
    """Waves of several periods with noise: a history and what follows."""
    t = torch.arange(args.history + args.horizon)
    periods = torch.rand(args.batch_size, args.channels, 3, 1) * 90 + 6
    phases = torch.rand(args.batch_size, args.channels, 3, 1) * 2 * math.pi
    x = torch.sin(2 * math.pi * t / periods + phases).sum(2) + 0.1 * torch.randn(t.shape)
    x = x.to(device)
    return x[..., : args.history], x[..., args.history :]


def run(model, args, device, optimizer=None, steps=1):
    total = 0.0
    for _ in range(steps):
        past, future = series(args, device)
        with torch.set_grad_enabled(optimizer is not None):
            loss = nn.functional.mse_loss(model(past), future)
        if optimizer is not None:
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 4.0)
            optimizer.step()
        total += loss.item()
    return total / steps


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--channels", type=int, default=32)
    parser.add_argument("--history", type=int, default=512)
    parser.add_argument("--horizon", type=int, default=96)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--steps", type=int, default=2)
    args = parser.parse_args()
    torch.manual_seed(2021)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = PatchTransformer(args.history, args.horizon, 16, 8, args.width, args.layers).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    best, patience = float("inf"), 3
    for epoch in range(args.epochs):
        model.train()
        train = run(model, args, device, optimizer, args.steps)
        model.eval()
        valid = run(model, args, device)
        print(f"epoch {epoch} train {train:.4f} valid {valid:.4f}")
        patience = 3 if valid < best else patience - 1
        best = min(best, valid)
        if patience == 0:
            break


if __name__ == "__main__":
    main()
