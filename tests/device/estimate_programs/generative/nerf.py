"""A neural radiance field: rays, positional encoding, coarse and fine sampling, rendering."""

import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


def encode(x, octaves):
    scales = 2.0 ** torch.arange(octaves, device=x.device) * math.pi
    angles = (x[..., None, :] * scales[:, None]).flatten(-2)
    return torch.cat([x, angles.sin(), angles.cos()], dim=-1)


class Field(nn.Module):
    def __init__(self, width=256, octaves=10, view_octaves=4):
        super().__init__()
        self.octaves, self.view_octaves = octaves, view_octaves
        point, view = 3 + 6 * octaves, 3 + 6 * view_octaves
        self.first = nn.ModuleList(
            nn.Linear(a, width) for a in (point, width, width, width, width + point, width, width)
        )
        self.density = nn.Linear(width, 1)
        self.feature = nn.Linear(width, width)
        self.color = nn.Sequential(
            nn.Linear(width + view, width // 2), nn.ReLU(), nn.Linear(width // 2, 3), nn.Sigmoid()
        )

    def forward(self, points, directions):
        p = encode(points, self.octaves)
        h = p
        for number, layer in enumerate(self.first):
            h = F.relu(layer(torch.cat([h, p], -1) if number == 4 else h))
        density = F.softplus(self.density(h)).squeeze(-1)
        d = encode(directions, self.view_octaves)[:, None].expand(-1, points.size(1), -1)
        return self.color(torch.cat([self.feature(h), d], dim=-1)), density


def render(colors, densities, depths):
    gaps = torch.cat([depths[:, 1:] - depths[:, :-1], torch.full_like(depths[:, :1], 1e10)], -1)
    alpha = 1 - torch.exp(-densities * gaps)
    through = torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha + 1e-10], -1), -1)
    weights = alpha * through[:, :-1]
    return (weights[..., None] * colors).sum(1), weights


@torch.no_grad()
def sample_fine(depths, weights, count):
    middle = 0.5 * (depths[:, 1:] + depths[:, :-1])
    pdf = weights[:, 1:-1] + 1e-5
    cdf = torch.cumsum(pdf / pdf.sum(-1, keepdim=True), -1)
    cdf = torch.cat([torch.zeros_like(cdf[:, :1]), cdf], -1)
    u = torch.rand(len(depths), count, device=depths.device)
    index = torch.searchsorted(cdf, u, right=True).clamp(1, cdf.size(-1) - 1)
    low, high = torch.gather(middle, 1, index - 1), torch.gather(middle, 1, index)
    fine = low + (high - low) * torch.rand_like(u)
    return torch.sort(torch.cat([depths, fine], -1), -1).values


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rays", type=int, default=4096)
    parser.add_argument("--coarse", type=int, default=64)
    parser.add_argument("--fine", type=int, default=128)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    coarse, fine = Field(args.width).to(device), Field(args.width).to(device)
    optimizer = torch.optim.Adam([*coarse.parameters(), *fine.parameters()], lr=5e-4)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.999)
    for step in range(args.steps):
        origins = torch.randn(args.rays, 3, device=device) * 0.1
        directions = F.normalize(torch.randn(args.rays, 3, device=device), dim=-1)
        target = torch.rand(args.rays, 3, device=device)
        bins = torch.linspace(2, 6, args.coarse, device=device)
        depths = bins + torch.rand(args.rays, args.coarse, device=device) * 4 / args.coarse
        points = origins[:, None] + depths[..., None] * directions[:, None]
        color, weights = render(*coarse(points, directions), depths)
        loss = F.mse_loss(color, target)
        depths = sample_fine(depths, weights, args.fine)
        points = origins[:, None] + depths[..., None] * directions[:, None]
        color, _ = render(*fine(points, directions), depths)
        mse = F.mse_loss(color, target)
        optimizer.zero_grad()
        (loss + mse).backward()
        optimizer.step()
        scheduler.step()
        print(f"step {step} PSNR {-10 * math.log10(mse.item()):.2f} dB")


if __name__ == "__main__":
    main()
