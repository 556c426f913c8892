"""A neural spline flow on tabular data: rational-quadratic couplings, conditioned on a class."""

import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


def spline(x, widths, heights, slopes, bound):
    """Monotone rational-quadratic spline inside [-bound, bound], the identity outside."""
    inside = (x > -bound) & (x < bound)
    clipped = x.clamp(-bound + 1e-4, bound - 1e-4)
    bins = widths.size(-1)
    widths = 1e-3 + (1 - 1e-3 * bins) * F.softmax(widths, -1)
    heights = 1e-3 + (1 - 1e-3 * bins) * F.softmax(heights, -1)
    xs = F.pad(widths.cumsum(-1), (1, 0)) * 2 * bound - bound
    ys = F.pad(heights.cumsum(-1), (1, 0)) * 2 * bound - bound
    slopes = F.pad(F.softplus(slopes) + 1e-3, (1, 1), value=1.0)
    index = (torch.searchsorted(xs.contiguous(), clipped.unsqueeze(-1)) - 1).clamp(0, bins - 1)

    def at(values, shift=0):
        return values.gather(-1, index + shift).squeeze(-1)

    x0, w = at(xs), at(xs, 1) - at(xs)
    y0, h = at(ys), at(ys, 1) - at(ys)
    d0, d1 = at(slopes), at(slopes, 1)
    t = (clipped - x0) / w
    s = h / w
    below = s + (d1 + d0 - 2 * s) * t * (1 - t)
    y = y0 + h * (s * t**2 + d0 * t * (1 - t)) / below
    top = s**2 * (d1 * t**2 + 2 * s * t * (1 - t) + d0 * (1 - t) ** 2)
    log_det = top.log() - 2 * below.log()
    return torch.where(inside, y, x), torch.where(inside, log_det, torch.zeros_like(x))


class Coupling(nn.Module):
    def __init__(self, dim, context, hidden, bins):
        super().__init__()
        self.half, self.bins = dim // 2, bins
        self.net = nn.Sequential(
            nn.Linear(self.half + context, hidden),
            nn.GELU(),
            nn.LayerNorm(hidden),
            nn.Linear(hidden, hidden),
            nn.GELU(),
            nn.Linear(hidden, (dim - self.half) * (3 * bins - 1)),
        )
        self.register_buffer("order", torch.randperm(dim))

    def forward(self, x, context):
        x = x[:, self.order]
        kept, moved = x[:, : self.half], x[:, self.half :]
        raw = self.net(torch.cat([kept, context], 1)).view(*moved.shape, -1)
        widths, heights, slopes = raw.split([self.bins, self.bins, self.bins - 1], -1)
        moved, log_det = spline(moved, widths, heights, slopes, 4.0)
        return torch.cat([kept, moved], 1), log_det.sum(1)


class Flow(nn.Module):
    def __init__(self, dim, classes, hidden, bins, layers):
        super().__init__()
        self.context = nn.Embedding(classes, 16)
        self.layers = nn.ModuleList([Coupling(dim, 16, hidden, bins) for _ in range(layers)])

    def forward(self, x, labels):
        context, total = self.context(labels), 0.0
        for layer in self.layers:
            x, log_det = layer(x, context)
            total = total + log_det
        base = -0.5 * (x.square() + math.log(2 * math.pi)).sum(1)
        return base + total


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8192)
    parser.add_argument("--dim", type=int, default=43)
    parser.add_argument("--hidden", type=int, default=512)
    parser.add_argument("--bins", type=int, default=8)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--steps", type=int, default=5)
    args = parser.parse_args()
    torch.manual_seed(5)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    rows = torch.randn(4 * args.batch_size, args.dim).tanh().mul_(3).to(device)
    labels = torch.randint(12, (len(rows),), device=device)
    model = Flow(args.dim, 12, args.hidden, args.bins, args.layers).to(device)
    optimizer = torch.optim.RAdam(model.parameters(), lr=3e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 100)
    for step in range(args.steps):
        pick = torch.randint(len(rows), (args.batch_size,), device=device)
        loss = -model(rows[pick], labels[pick]).mean()
        optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        if torch.isfinite(norm):
            optimizer.step()
        schedule.step()
        print(f"step {step}: {loss.item():.3f}")
    with torch.no_grad():
        held = torch.cat([model(r, c) for r, c in zip(rows.chunk(2), labels.chunk(2))])
    print("held out", held.mean().item())


if __name__ == "__main__":
    main()
