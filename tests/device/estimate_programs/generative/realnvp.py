"""A normalizing flow of affine couplings on vectors: exact likelihood, sampling by inversion."""

import argparse
import math

import torch
from torch import nn


class Coupling(nn.Module):
    def __init__(self, size, hidden, mask):
        super().__init__()
        self.register_buffer("mask", mask)
        self.net = nn.Sequential(
            nn.Linear(size, hidden),
            nn.SiLU(),
            nn.Linear(hidden, hidden),
            nn.SiLU(),
            nn.Linear(hidden, 2 * size),
        )
        nn.init.zeros_(self.net[-1].weight)
        nn.init.zeros_(self.net[-1].bias)

    def parts(self, x):
        scale, shift = self.net(x * self.mask).chunk(2, dim=-1)
        return torch.tanh(scale) * (1 - self.mask), shift * (1 - self.mask)

    def forward(self, x):
        scale, shift = self.parts(x)
        return x * scale.exp() + shift, scale.sum(-1)

    def inverse(self, y):
        scale, shift = self.parts(y)
        return (y - shift) * (-scale).exp()


class Flow(nn.Module):
    def __init__(self, size, hidden, layers):
        super().__init__()
        mask = (torch.arange(size) % 2).float()
        self.layers = nn.ModuleList(
            Coupling(size, hidden, mask if i % 2 else 1 - mask) for i in range(layers)
        )
        self.size = size

    def log_prob(self, x):
        total = x.new_zeros(len(x))
        for layer in self.layers:
            x, log_det = layer(x)
            total = total + log_det
        return total - 0.5 * (x.square().sum(-1) + self.size * math.log(2 * math.pi))

    @torch.no_grad()
    def sample(self, count):
        x = torch.randn(count, self.size, device=self.layers[0].mask.device)
        for layer in reversed(self.layers):
            x = layer.inverse(x)
        return x


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8192)
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--hidden", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    torch.manual_seed(9)
    flow = Flow(args.size, args.hidden, args.layers).to(args.device)
    optimizer = torch.optim.RAdam(flow.parameters(), lr=5e-4)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.steps)
    mixing = torch.randn(args.size, args.size, device=args.device) / math.sqrt(args.size)
    for step in range(args.steps):
        x = torch.randn(args.batch_size, args.size, device=args.device) @ mixing
        loss = -flow.log_prob(x).mean()
        optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(flow.parameters(), 10.0)
        optimizer.step()
        scheduler.step()
        print(f"step {step} negative log likelihood {loss.item():.3f} norm {norm.item():.3f}")
    samples = flow.sample(args.batch_size)
    print(f"covariance of samples: {torch.cov(samples.t()).diagonal().mean().item():.4f}")


if __name__ == "__main__":
    main()
