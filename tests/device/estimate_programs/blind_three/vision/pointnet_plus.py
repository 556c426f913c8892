"""PointNet++ for parts of objects: farthest points, balls of neighbours, features handed back."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


def farthest_points(xyz, n):
    B, N, _ = xyz.shape
    rows = torch.arange(B, device=xyz.device)
    chosen = torch.zeros(B, n, dtype=torch.long, device=xyz.device)
    distance = torch.full((B, N), 1e10, device=xyz.device)
    current = torch.randint(0, N, (B,), device=xyz.device)
    for i in range(n):
        chosen[:, i] = current
        away = (xyz - xyz[rows, current][:, None]).square().sum(-1)
        distance = torch.minimum(distance, away)
        current = distance.argmax(-1)
    return chosen


def take(x, index):
    """Rows of x (B, N, C) by an index of any shape (B, ...)."""
    flat = index.flatten(1)
    picked = x.gather(1, flat[..., None].expand(-1, -1, x.size(-1)))
    return picked.view(*index.shape, x.size(-1))


class SetAbstraction(nn.Module):
    def __init__(self, points, radius, neighbours, width_in, widths):
        super().__init__()
        self.points, self.radius, self.neighbours = points, radius, neighbours
        layers, last = [], width_in + 3
        for width in widths:
            layers += [nn.Conv2d(last, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
            last = width
        self.net = nn.Sequential(*layers)

    def forward(self, xyz, features):
        with torch.no_grad():
            centres = take(xyz, farthest_points(xyz, self.points))
            distance, index = torch.cdist(centres, xyz).topk(self.neighbours, largest=False)
            index = torch.where(distance > self.radius, index[..., :1], index)
        local = take(xyz, index) - centres.unsqueeze(2)
        grouped = torch.cat([local, take(features, index)], dim=-1)
        out = self.net(grouped.permute(0, 3, 2, 1)).amax(dim=2)
        return centres, out.transpose(1, 2)


class Propagation(nn.Module):
    """Features of few points go to many: the three nearest, weighed by inverse distance."""

    def __init__(self, width_in, width):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(width_in, width, 1), nn.BatchNorm1d(width), nn.ReLU(), nn.Dropout(0.2)
        )

    def forward(self, xyz, coarse_xyz, features, coarse):
        distance, index = torch.cdist(xyz, coarse_xyz).topk(3, largest=False)
        weight = 1 / (distance + 1e-8)
        weight = weight / weight.sum(-1, keepdim=True)
        spread = (take(coarse, index) * weight.unsqueeze(-1)).sum(2)
        return self.net(torch.cat([spread, features], -1).transpose(1, 2)).transpose(1, 2)


class Parts(nn.Module):
    def __init__(self, points, width, parts):
        super().__init__()
        w = width
        self.first = SetAbstraction(points // 4, 0.2, 32, 3, [w, w, 2 * w])
        self.second = SetAbstraction(points // 16, 0.4, 64, 2 * w, [2 * w, 2 * w, 4 * w])
        self.back_second = Propagation(6 * w, 4 * w)
        self.back_first = Propagation(4 * w + 3, 2 * w)
        self.head = nn.Linear(2 * w, parts)

    def forward(self, xyz, normals):
        xyz1, f1 = self.first(xyz, normals)
        xyz2, f2 = self.second(xyz1, f1)
        f1 = self.back_second(xyz1, xyz2, f1, f2)
        return self.head(self.back_first(xyz, xyz1, normals, f1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--points", type=int, default=2048)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--parts", type=int, default=50)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Parts(args.points, args.width, args.parts).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    rate = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.7)
    for step in range(args.steps):
        normals = F.normalize(torch.randn(args.batch_size, args.points, 3), dim=-1).to(device)
        xyz = normals * (0.8 + 0.2 * torch.rand_like(normals[..., :1]))
        labels = ((normals[..., 0] + 1) / 2 * (args.parts - 1)).long()
        loss = F.cross_entropy(model(xyz, normals).transpose(1, 2), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        rate.step()
        print(f"step {step}: {loss.item():.4f}")


if __name__ == "__main__":
    main()
