"""A radiance field on a multi-resolution hash grid: trilinear lookups, an occupancy grid."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F

PRIMES = (1, 2_654_435_761, 805_459_861)


class HashGrid(nn.Module):
    def __init__(self, levels, log_size, features, coarse, fine):
        super().__init__()
        self.size = 2**log_size
        growth = (fine / coarse) ** (1 / max(levels - 1, 1))
        self.resolutions = [int(coarse * growth**i) for i in range(levels)]
        self.tables = nn.Parameter(1e-4 * (2 * torch.rand(levels, self.size, features) - 1))
        corners = [[i, j, k] for i in (0, 1) for j in (0, 1) for k in (0, 1)]
        self.register_buffer("corners", torch.tensor(corners))

    def forward(self, x):
        found = []
        for level, resolution in enumerate(self.resolutions):
            scaled = x * resolution
            low = scaled.floor().long()
            part = (scaled - low).unsqueeze(1)
            points = low.unsqueeze(1) + self.corners
            mixed = points[..., 0] * PRIMES[0]
            mixed = mixed ^ (points[..., 1] * PRIMES[1]) ^ (points[..., 2] * PRIMES[2])
            values = self.tables[level][mixed % self.size]
            weight = torch.where(self.corners.bool(), part, 1 - part).prod(-1, keepdim=True)
            found.append((weight * values).sum(1))
        return torch.cat(found, dim=-1)


class Field(nn.Module):
    def __init__(self, levels, log_size, features, hidden):
        super().__init__()
        self.grid = HashGrid(levels, log_size, features, 16, 1024)
        self.density = nn.Sequential(
            nn.Linear(levels * features, hidden), nn.ReLU(), nn.Linear(hidden, 16)
        )
        self.colour = nn.Sequential(
            nn.Linear(16 + 3, hidden),
            nn.ReLU(),
            nn.Linear(hidden, hidden),
            nn.ReLU(),
            nn.Linear(hidden, 3),
            nn.Sigmoid(),
        )

    def forward(self, x, direction):
        h = self.density(self.grid(x))
        return torch.exp(h[:, 0].clamp(max=8)), self.colour(torch.cat([h, direction], 1))


def render(field, origins, directions, occupied, samples):
    """Only samples in occupied cells are evaluated; the rest is empty space."""
    R, cells = len(origins), occupied.size(0)
    t = torch.linspace(0.05, 1.7, samples, device=origins.device).expand(R, -1)
    t = t + 1.65 / samples * torch.rand_like(t)
    points = origins[:, None] + t[..., None] * directions[:, None]
    inside = ((points > 0) & (points < 1)).all(-1)
    cell = (points.clamp(0, 0.9999) * cells).long()
    keep = inside & occupied[cell[..., 0], cell[..., 1], cell[..., 2]]
    density = torch.zeros(R, samples, device=origins.device)
    colour = torch.zeros(R, samples, 3, device=origins.device)
    seen = directions[:, None].expand_as(points)[keep]
    sigma, rgb = field(points[keep], seen)
    density = density.masked_scatter(keep, sigma)
    colour = colour.masked_scatter(keep.unsqueeze(-1), rgb)
    alpha = 1 - torch.exp(-density * 1.65 / samples)
    through = torch.cumprod(1 - alpha + 1e-10, 1).roll(1, 1)
    through = torch.cat([torch.ones_like(through[:, :1]), through[:, 1:]], 1)
    return ((alpha * through)[..., None] * colour).sum(1), keep.float().mean()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rays", type=int, default=8192)
    parser.add_argument("--samples", type=int, default=192)
    parser.add_argument("--levels", type=int, default=12)
    parser.add_argument("--log-size", type=int, default=19)
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--steps", type=int, default=5)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    field = Field(args.levels, args.log_size, 2, args.hidden).to(device)
    optimizer = torch.optim.Adam(field.parameters(), lr=1e-2, eps=1e-15, betas=(0.9, 0.99))
    middle = (torch.arange(64, device=device) + 0.5) / 64 - 0.5
    radius = (middle[:, None, None] ** 2 + middle[:, None] ** 2 + middle**2).sqrt()
    occupied = radius < 0.35
    for step in range(args.steps):
        origins = 0.5 + 0.85 * F.normalize(torch.randn(args.rays, 3, device=device), dim=1)
        aims = 0.5 + 0.1 * torch.randn(args.rays, 3, device=device)
        directions = F.normalize(aims - origins, dim=1)
        target = 0.5 + 0.5 * directions
        colour, share = render(field, origins, directions, occupied, args.samples)
        loss = F.huber_loss(colour, target, delta=0.1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step}: {loss.item():.5f}, {share.item():.2%} of samples evaluated")


if __name__ == "__main__":
    main()
