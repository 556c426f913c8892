"""Parts of point clouds: vector attention over neighbours, farthest points."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


def gather(values, index):
    rows = torch.arange(len(values), device=values.device)
    return values[rows.view(-1, *[1] * (index.ndim - 1)), index]


def farthest(points, count):
    B, N, _ = points.shape
    distance = torch.full((B, N), 1e10, device=points.device)
    chosen = torch.zeros(B, count, dtype=torch.long, device=points.device)
    last = torch.zeros(B, dtype=torch.long, device=points.device)
    rows = torch.arange(B, device=points.device)
    for i in range(count):
        chosen[:, i] = last
        gap = (points - points[rows, last].unsqueeze(1)).square().sum(-1)
        distance = torch.minimum(distance, gap)
        last = distance.argmax(1)
    return chosen


class VectorAttention(nn.Module):
    def __init__(self, dim, neighbours):
        super().__init__()
        self.neighbours = neighbours
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.place = nn.Sequential(nn.Linear(3, dim), nn.ReLU(), nn.Linear(dim, dim))
        self.weigh = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, dim))
        self.out = nn.Linear(dim, dim)
        self.norm = nn.LayerNorm(dim)

    def forward(self, points, x):
        near = torch.cdist(points, points).topk(self.neighbours, largest=False).indices
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        place = self.place(points.unsqueeze(2) - gather(points, near))
        scores = self.weigh(q.unsqueeze(2) - gather(k, near) + place)
        mixed = (F.softmax(scores, dim=2) * (gather(v, near) + place)).sum(2)
        return x + self.out(mixed)


class PointTransformer(nn.Module):
    def __init__(self, dim, neighbours, classes, levels=3):
        super().__init__()
        self.neighbours = neighbours
        dims = [dim * 2**i for i in range(levels)]
        self.stem = nn.Sequential(nn.Linear(3, dim), nn.ReLU(), nn.Linear(dim, dim))
        self.down = nn.ModuleList([VectorAttention(d, neighbours) for d in dims])
        self.widen = nn.ModuleList([nn.Linear(a, b) for a, b in zip(dims, dims[1:])])
        self.narrow = nn.ModuleList([nn.Linear(b, a) for a, b in zip(dims, dims[1:])])
        self.up = nn.ModuleList([VectorAttention(d, neighbours) for d in dims[:-1]])
        self.head = nn.Linear(dim, classes)

    def forward(self, points):
        x = self.down[0](points, self.stem(points))
        kept = []
        for block, widen in zip(self.down[1:], self.widen):
            kept.append((points, x))
            chosen = farthest(points, points.size(1) // 4)
            fewer = gather(points, chosen)
            near = torch.cdist(fewer, points).topk(self.neighbours, largest=False).indices
            x = widen(gather(x, near)).amax(2)
            points = fewer
            x = block(points, x)
        for (finer, skip), narrow, block in zip(kept[::-1], self.narrow[::-1], self.up[::-1]):
            distance, near = torch.cdist(finer, points).topk(3, largest=False)
            share = F.normalize(1 / (distance + 1e-8), p=1, dim=-1).unsqueeze(-1)
            x = block(finer, skip + (gather(narrow(x), near) * share).sum(2))
            points = finer
        return self.head(x)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--points", type=int, default=2048)
    parser.add_argument("--dim", type=int, default=48)
    parser.add_argument("--neighbours", type=int, default=16)
    parser.add_argument("--classes", type=int, default=50)
    parser.add_argument("--steps", type=int, default=3)
    args = parser.parse_args()
    torch.manual_seed(60)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = PointTransformer(args.dim, args.neighbours, args.classes).to(device)
    optimizer = torch.optim.Adamax(model.parameters(), lr=2e-3)
    for step in range(args.steps):
        points = F.normalize(torch.randn(args.batch_size, args.points, 3, device=device), dim=-1)
        parts = (points[..., 2] * args.classes / 2 + args.classes / 2).long()
        loss = F.cross_entropy(model(points).transpose(1, 2), parts.clamp(0, args.classes - 1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step}: {loss.item():.4f}")


if __name__ == "__main__":
    main()
