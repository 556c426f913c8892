"""Rectified flow with a U-shaped vision transformer: accelerate, bf16, EMA, sampling."""

import argparse
import copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from accelerate import Accelerator


def embed_time(t, dim):
    freq = torch.exp(-math.log(10000) * torch.arange(dim // 2, device=t.device) / (dim // 2))
    angle = 1000 * t[:, None] * freq
    return torch.cat((angle.sin(), angle.cos()), dim=-1)


class Block(nn.Module):
    def __init__(self, dim, skip=False):
        super().__init__()
        self.skip = nn.Linear(2 * dim, dim) if skip else None
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.heads = dim // 64
        self.qkv, self.proj = nn.Linear(dim, 3 * dim, bias=False), nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x, other=None):
        if self.skip is not None:
            x = self.skip(torch.cat((x, other), dim=-1))
        b, n, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        x = x + self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, d))
        return x + self.mlp(self.norm2(x))


class UViT(nn.Module):
    def __init__(self, size, channels, patch, dim, depth, classes):
        super().__init__()
        self.patch, self.side, self.channels = patch, size // patch, channels
        self.input = nn.Conv2d(channels, dim, patch, stride=patch)
        self.place = nn.Parameter(0.02 * torch.randn(1, self.side**2 + 2, dim))
        self.label = nn.Embedding(classes, dim)
        self.time = nn.Sequential(nn.Linear(dim, dim), nn.SiLU(), nn.Linear(dim, dim))
        self.down = nn.ModuleList(Block(dim) for _ in range(depth // 2))
        self.middle = Block(dim)
        self.up = nn.ModuleList(Block(dim, skip=True) for _ in range(depth // 2))
        self.norm = nn.LayerNorm(dim)
        self.output = nn.Linear(dim, channels * patch**2)
        self.final = nn.Conv2d(channels, channels, 3, padding=1)
        self.dim = dim

    def forward(self, x, t, y):
        h = self.input(x).flatten(2).transpose(1, 2)
        time = self.time(embed_time(t, self.dim).to(h.dtype)).unsqueeze(1)
        h = torch.cat((time, self.label(y).unsqueeze(1), h), dim=1) + self.place
        skips = []
        for block in self.down:
            h = block(h)
            skips.append(h)
        h = self.middle(h)
        for block in self.up:
            h = block(h, skips.pop())
        h = self.output(self.norm(h))[:, 2:]
        h = h.transpose(1, 2).reshape(len(x), -1, self.side, self.side)
        return self.final(F.pixel_shuffle(h, self.patch))


@torch.no_grad()
def sample(model, n, channels, size, steps, device):
    x = torch.randn(n, channels, size, size, device=device)
    y = torch.arange(n, device=device) % 10
    for i in range(steps):
        t = torch.full((n,), i / steps, device=device)
        x = x + model(x, t, y) / steps
    return x


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--size", type=int, default=32)
    p.add_argument("--dim", type=int, default=512)
    p.add_argument("--depth", type=int, default=12)
    p.add_argument("--classes", type=int, default=10)
    p.add_argument("--mixed", default="bf16")
    args = p.parse_args()
    torch.manual_seed(2024)
    accelerator = Accelerator(mixed_precision=args.mixed)
    model = UViT(args.size, 4, 2, args.dim, args.depth, args.classes)
    ema = copy.deepcopy(model).eval().requires_grad_(False).to(accelerator.device)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=2e-4, weight_decay=0.03, betas=(0.99, 0.99)
    )
    model, optimizer = accelerator.prepare(model, optimizer)
    for step in range(5):
        data = torch.randn(args.batch, 4, args.size, args.size, device=accelerator.device)
        labels = torch.randint(args.classes, (args.batch,), device=accelerator.device)
        noise, t = torch.randn_like(data), torch.rand(args.batch, device=accelerator.device)
        mixed = torch.lerp(noise, data, t.view(-1, 1, 1, 1))
        loss = F.mse_loss(model(mixed, t, labels), data - noise)
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            for a, b in zip(ema.parameters(), model.parameters()):
                a.lerp_(b, 1e-3)
        accelerator.print(step, loss.item())
    images = sample(ema, 16, 4, args.size, 10, accelerator.device)
    accelerator.print(images.std().item())


if __name__ == "__main__":
    main()
