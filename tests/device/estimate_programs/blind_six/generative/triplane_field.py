"""A radiance field on three feature planes: rays sampled by chunks, total variation, images in
between.
"""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


class Triplane(nn.Module):
    def __init__(self, resolution, features, width):
        super().__init__()
        self.planes = nn.Parameter(torch.randn(3, features, resolution, resolution) * 0.1)
        self.density = nn.Sequential(
            nn.Linear(features, width), nn.ReLU(), nn.Linear(width, 1 + 15)
        )
        self.colour = nn.Sequential(
            nn.Linear(15 + 3, width),
            nn.ReLU(),
            nn.Linear(width, width),
            nn.ReLU(),
            nn.Linear(width, 3),
        )

    def forward(self, points, directions):
        pairs = torch.stack([points[..., [0, 1]], points[..., [0, 2]], points[..., [1, 2]]])
        grid = pairs.flatten(1, 2)[:, :, None]
        features = F.grid_sample(self.planes, grid, align_corners=True).squeeze(-1).prod(0).T
        h = self.density(features)
        rgb = self.colour(torch.cat([h[:, 1:], directions.flatten(0, 1)], dim=-1)).sigmoid()
        shape = points.shape[:2]
        return F.softplus(h[:, 0]).view(shape), rgb.view(*shape, 3)

    def smoothness(self):
        p = self.planes
        return (p[..., 1:, :] - p[..., :-1, :]).square().mean() + (
            p[..., 1:] - p[..., :-1]
        ).square().mean()


def render(field, origins, directions, samples, jitter):
    near, far = 0.5, 2.5
    t = torch.linspace(near, far, samples, device=origins.device).expand(len(origins), samples)
    if jitter:
        t = t + torch.rand_like(t) * (far - near) / samples
    points = origins[:, None] + directions[:, None] * t[..., None]
    sigma, rgb = field(points, directions[:, None].expand_as(points))
    gap = torch.cat([t[:, 1:] - t[:, :-1], torch.full_like(t[:, :1], 1e10)], dim=1)
    alpha = 1 - torch.exp(-sigma * gap)
    through = torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha + 1e-10], 1), 1)
    weight = alpha * through[:, :-1]
    return (weight[..., None] * rgb).sum(1) + 1 - weight.sum(1, keepdim=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rays", type=int, default=8192)
    parser.add_argument("--samples", type=int, default=128)
    parser.add_argument("--resolution", type=int, default=512)
    parser.add_argument("--features", type=int, default=32)
    parser.add_argument("--width", type=int, default=64)
    args = parser.parse_args()
    torch.manual_seed(0)
    field = Triplane(args.resolution, args.features, args.width).cuda()
    optimizer = torch.optim.Adam(
        [
            {"params": [field.planes], "lr": 0.02},
            {"params": [*field.density.parameters(), *field.colour.parameters()], "lr": 1e-3},
        ]
    )
    for step in range(5):
        origins = F.normalize(torch.randn(args.rays, 3, device="cuda"), dim=-1) * 1.5
        directions = F.normalize(-origins + 0.2 * torch.randn_like(origins), dim=-1)
        truth = torch.rand(args.rays, 3, device="cuda")
        loss = F.mse_loss(render(field, origins, directions, args.samples, True), truth)
        loss = loss + 1e-2 * field.smoothness()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 2 == 0:
            with torch.no_grad():
                rows = [
                    render(field, o, d, args.samples, False)
                    for o, d in zip(origins.split(2048), directions.split(2048))
                ]
                print(step, -10 * torch.log10(F.mse_loss(torch.cat(rows), truth)).item())


if __name__ == "__main__":
    main()
