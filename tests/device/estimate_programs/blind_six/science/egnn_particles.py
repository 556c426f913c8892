"""Positions of particles with an E(n)-equivariant network over all pairs; own loop, cosine
schedule.
"""

import argparse

import torch
import torch.nn as nn


class EquivariantLayer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.edge = nn.Sequential(
            nn.Linear(2 * width + 1, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU()
        )
        self.gate = nn.Sequential(nn.Linear(width, 1), nn.Sigmoid())
        self.move = nn.Sequential(
            nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 1, bias=False)
        )
        self.node = nn.Sequential(nn.Linear(2 * width, width), nn.SiLU(), nn.Linear(width, width))

    def forward(self, h, x, rows, cols):
        difference = x[rows] - x[cols]
        distance = difference.pow(2).sum(-1, keepdim=True)
        message = self.edge(torch.cat([h[rows], h[cols], distance], dim=-1))
        message = message * self.gate(message)
        shift = difference / (distance.sqrt() + 1) * self.move(message)
        x = x + torch.zeros_like(x).index_add(0, rows, shift) / 10
        total = torch.zeros_like(h).index_add(0, rows, message)
        return h + self.node(torch.cat([h, total], dim=-1)), x


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--particles", type=int, default=40)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--layers", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    embed = nn.Linear(2, args.width).cuda()
    layers = nn.ModuleList(EquivariantLayer(args.width) for _ in range(args.layers)).cuda()
    params = [*embed.parameters(), *layers.parameters()]
    optimizer = torch.optim.Adam(params, lr=5e-4, weight_decay=1e-12)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 100)
    n = args.particles
    i, j = torch.meshgrid(torch.arange(n), torch.arange(n), indexing="ij")
    pairs = torch.stack([i[i != j], j[i != j]])
    offsets = (torch.arange(args.batch_size) * n).repeat_interleave(pairs.shape[1])
    rows, cols = (pairs.repeat(1, args.batch_size) + offsets).cuda()
    for step in range(5):
        x = torch.randn(args.batch_size * n, 3).cuda()
        speed = torch.randn_like(x) * 0.1
        charge = torch.randint(0, 2, (len(x), 1)).float().cuda()
        h = embed(torch.cat([charge, speed.norm(dim=-1, keepdim=True)], dim=-1))
        guess = x
        for layer in layers:
            h, guess = layer(h, guess, rows, cols)
        loss = (guess - (x + speed)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(params, 1.0)
        optimizer.step()
        schedule.step()
        print(step, loss.item())


if __name__ == "__main__":
    main()
