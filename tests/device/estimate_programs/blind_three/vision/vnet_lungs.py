"""A V-Net for nodules in 3-D scans: checkpoint_sequential in each level, fp16, Tversky loss."""

import argparse

import torch
import torch.nn as nn
from torch.utils.checkpoint import checkpoint_sequential


def unit(channels):
    return nn.Sequential(
        nn.Conv3d(channels, channels, 5, padding=2),
        nn.GroupNorm(min(8, channels), channels),
        nn.PReLU(channels),
    )


class Level(nn.Module):
    def __init__(self, channels, units, segments):
        super().__init__()
        self.units = nn.Sequential(*[unit(channels) for _ in range(units)])
        self.segments = min(segments, units)

    def forward(self, x):
        if self.training and self.segments > 1:
            y = checkpoint_sequential(self.units, self.segments, x, use_reentrant=False)
        else:
            y = self.units(x)
        return x + y


class VNet(nn.Module):
    def __init__(self, base, depth, segments):
        super().__init__()
        widths = [base * 2**i for i in range(depth)]
        self.stem = nn.Conv3d(1, base, 5, padding=2)
        self.down_levels = nn.ModuleList(
            Level(w, min(i + 1, 3), segments) for i, w in enumerate(widths)
        )
        self.downs = nn.ModuleList(nn.Conv3d(a, b, 2, stride=2) for a, b in zip(widths, widths[1:]))
        self.ups = nn.ModuleList(
            nn.ConvTranspose3d(b, a, 2, stride=2) for a, b in zip(widths, widths[1:])
        )
        self.merges = nn.ModuleList(nn.Conv3d(2 * a, a, 1) for a in widths[:-1])
        self.up_levels = nn.ModuleList(
            Level(w, min(i + 1, 3), segments) for i, w in enumerate(widths[:-1])
        )
        self.head = nn.Conv3d(base, 2, 1)

    def forward(self, x):
        x = self.stem(x)
        skips = []
        for level, down in zip(self.down_levels, self.downs):
            x = level(x)
            skips.append(x)
            x = down(x)
        x = self.down_levels[-1](x)
        for i in reversed(range(len(self.ups))):
            x = self.merges[i](torch.cat([self.ups[i](x), skips[i]], dim=1))
            x = self.up_levels[i](x)
        return self.head(x)


def tversky(logits, mask, alpha=0.3, beta=0.7):
    p = logits.float().softmax(1)[:, 1]
    both = (p * mask).sum((1, 2, 3))
    false = (p * (1 - mask)).sum((1, 2, 3))
    missed = ((1 - p) * mask).sum((1, 2, 3))
    return 1 - ((both + 1) / (both + alpha * false + beta * missed + 1)).mean()


def scans(n, size, device):
    grid = torch.stack(
        torch.meshgrid(*[torch.arange(size, device=device)] * 3, indexing="ij")
    ).float()
    centre = size * (0.25 + 0.5 * torch.rand(n, 3, 1, 1, 1, device=device))
    radius = size * (0.05 + 0.1 * torch.rand(n, 1, 1, 1, device=device))
    mask = ((grid - centre).square().sum(1).sqrt() < radius).float()
    return torch.randn(n, 1, size, size, size, device=device) + mask.unsqueeze(1), mask


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=2)
    parser.add_argument("--size", type=int, default=112)
    parser.add_argument("--base", type=int, default=16)
    parser.add_argument("--depth", type=int, default=4)
    parser.add_argument("--segments", type=int, default=2)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = VNet(args.base, args.depth, args.segments).to(device)
    optimizer = torch.optim.Adadelta(model.parameters(), lr=0.5, weight_decay=1e-5)
    scaler = torch.amp.GradScaler(device.type, enabled=device.type == "cuda")
    for step in range(args.steps):
        images, mask = scans(args.batch_size, args.size, device)
        with torch.autocast(device.type, enabled=device.type == "cuda"):
            loss = tversky(model(images), mask)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        print(f"step {step}: {loss.item():.4f}")
    model.eval()
    with torch.no_grad():
        images, mask = scans(1, args.size, device)
        found = model(images).argmax(1)
    print("voxels found", int(found.sum()), "of", int(mask.sum()))


if __name__ == "__main__":
    main()
