"""Aligns two volumes: a 3-D U-Net gives a velocity field, integrated by squaring."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


class Unet(nn.Module):
    def __init__(self, base):
        super().__init__()
        widths = [base, 2 * base, 2 * base, 2 * base]
        self.down = nn.ModuleList()
        inputs = 2
        for width in widths:
            self.down.append(nn.Conv3d(inputs, width, 3, stride=2, padding=1))
            inputs = width
        self.up = nn.ModuleList()
        for skip in [*widths[-2::-1], 2]:
            self.up.append(nn.Conv3d(inputs + skip, 2 * base, 3, padding=1))
            inputs = 2 * base
        self.flow = nn.Conv3d(inputs, 3, 3, padding=1)
        nn.init.normal_(self.flow.weight, std=1e-5)
        nn.init.zeros_(self.flow.bias)

    def forward(self, pair):
        kept = [pair]
        for layer in self.down:
            kept.append(F.leaky_relu(layer(kept[-1]), 0.2))
        x = kept.pop()
        for layer in self.up:
            x = F.interpolate(x, scale_factor=2, mode="nearest")
            x = F.leaky_relu(layer(torch.cat([x, kept.pop()], 1)), 0.2)
        return self.flow(x)


def warp(volume, flow, grid):
    moved = grid + flow.permute(0, 2, 3, 4, 1)
    return F.grid_sample(volume, moved, align_corners=True, padding_mode="border")


def integrate(velocity, grid, times):
    flow = velocity / 2**times
    for _ in range(times):
        flow = flow + warp(flow, flow, grid)
    return flow


def correlation(a, b, window=9):
    def mean(x):
        return F.avg_pool3d(x, window, stride=1, padding=window // 2)

    ma, mb = mean(a), mean(b)
    cross = mean(a * b) - ma * mb
    va, vb = mean(a * a) - ma * ma, mean(b * b) - mb * mb
    return -(cross * cross / (va * vb + 1e-5)).mean()


def smoothness(flow):
    return sum(flow.diff(dim=d).square().mean() for d in (2, 3, 4)) / 3


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=1)
    parser.add_argument("--size", type=int, nargs=3, default=[128, 160, 144])
    parser.add_argument("--base", type=int, default=16)
    parser.add_argument("--times", type=int, default=7)
    parser.add_argument("--steps", type=int, default=3)
    args = parser.parse_args()
    torch.manual_seed(70)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Unet(args.base).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    identity = torch.eye(3, 4, device=device).repeat(args.batch_size, 1, 1)
    grid = F.affine_grid(identity, (args.batch_size, 1, *args.size), align_corners=True)
    for step in range(args.steps):
        moving = torch.rand(args.batch_size, 1, *args.size, device=device)
        fixed = torch.rand(args.batch_size, 1, *args.size, device=device)
        velocity = model(torch.cat([moving, fixed], 1))
        flow = integrate(velocity, grid, args.times)
        loss = correlation(fixed, warp(moving, flow, grid)) + 1.0 * smoothness(velocity)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        print(f"step {step}: {loss.item():.5f}")


if __name__ == "__main__":
    main()
