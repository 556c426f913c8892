"""Flow matching with a diffusion transformer on latents of several aspect ratios: every batch comes
from one bucket of shapes, positions are rotary in two dimensions, and weights are averaged.
"""

import argparse
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F


def rotary_2d(height, width, dim, device):
    quarter = dim // 4
    freq = 10000 ** (-torch.arange(quarter, device=device) / quarter)
    y, x = torch.meshgrid(
        torch.arange(height, device=device), torch.arange(width, device=device), indexing="ij"
    )
    angle = torch.cat([y.flatten()[:, None] * freq, x.flatten()[:, None] * freq], dim=-1)
    return angle.cos(), angle.sin()


def rotate(x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1).to(x.dtype)


class RMSNorm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        norm = x.float().pow(2).mean(-1, keepdim=True).add(1e-6).rsqrt()
        return (x * norm).to(x.dtype) * self.weight.to(x.dtype)


class DiTBlock(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(dim, elementwise_affine=False, eps=1e-6)
        self.norm2 = nn.LayerNorm(dim, elementwise_affine=False, eps=1e-6)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.q_norm, self.k_norm = RMSNorm(dim // heads), RMSNorm(dim // heads)
        self.proj = nn.Linear(dim, dim)
        hidden = int(dim * 8 / 3) // 64 * 64
        self.w12 = nn.Linear(dim, 2 * hidden)
        self.w3 = nn.Linear(hidden, dim)
        self.modulation = nn.Linear(dim, 6 * dim)
        nn.init.zeros_(self.modulation.weight)
        nn.init.zeros_(self.modulation.bias)

    def forward(self, x, cond, cos, sin):
        B, N, C = x.shape
        shift1, scale1, gate1, shift2, scale2, gate2 = (
            self.modulation(F.silu(cond)).unsqueeze(1).chunk(6, dim=-1)
        )
        h = self.norm1(x) * (1 + scale1) + shift1
        q, k, v = self.qkv(h).view(B, N, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        q = rotate(self.q_norm(q), cos, sin)
        k = rotate(self.k_norm(k), cos, sin)
        h = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(B, N, C)
        x = x + gate1 * self.proj(h)
        h = self.norm2(x) * (1 + scale2) + shift2
        a, b = self.w12(h).chunk(2, dim=-1)
        return x + gate2 * self.w3(F.silu(a) * b)


class DiT(nn.Module):
    def __init__(self, channels, patch, dim, depth, heads, classes):
        super().__init__()
        self.patch, self.dim, self.heads = patch, dim, heads
        self.channels = channels
        self.inp = nn.Linear(channels * patch * patch, dim)
        self.time = nn.Sequential(nn.Linear(256, dim), nn.SiLU(), nn.Linear(dim, dim))
        self.label = nn.Embedding(classes + 1, dim)
        nn.init.normal_(self.label.weight, std=0.02)
        self.blocks = nn.ModuleList(DiTBlock(dim, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(dim, elementwise_affine=False)
        self.out = nn.Linear(dim, channels * patch * patch)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    def forward(self, x, t, y):
        B, C, H, W = x.shape
        p = self.patch
        h, w = H // p, W // p
        tokens = x.view(B, C, h, p, w, p).permute(0, 2, 4, 1, 3, 5).reshape(B, h * w, -1)
        freq = torch.exp(-9.2 * torch.arange(128, device=x.device) / 128)
        angle = 1000 * t[:, None] * freq
        cond = self.time(torch.cat([angle.cos(), angle.sin()], dim=-1)) + self.label(y)
        cos, sin = rotary_2d(h, w, self.dim // self.heads, x.device)
        tokens = self.inp(tokens)
        for block in self.blocks:
            tokens = block(tokens, cond, cos, sin)
        tokens = self.out(self.norm(tokens))
        return tokens.view(B, h, w, C, p, p).permute(0, 3, 1, 4, 2, 5).reshape(B, C, H, W)


@torch.no_grad()
def generate(model, shape, label, null, steps, scale, device):
    x = torch.randn(shape, device=device)
    y = torch.full((shape[0],), label, device=device)
    empty = torch.full_like(y, null)
    for i in range(steps):
        t = torch.full((shape[0],), 1 - i / steps, device=device)
        guided = model(x, t, y).float()
        free = model(x, t, empty).float()
        x = x - (free + scale * (guided - free)) / steps
    return x


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tokens", type=int, default=24576, help="latent patches in a batch")
    parser.add_argument("--base", type=int, default=32, help="side of the square bucket")
    parser.add_argument("--channels", type=int, default=16)
    parser.add_argument("--patch", type=int, default=2)
    parser.add_argument("--dim", type=int, default=768)
    parser.add_argument("--depth", type=int, default=12)
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=6)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda")

    b = args.base
    buckets = [(b, b), (b + b // 4, b - b // 4), (b - b // 4, b + b // 4), (b * 2, b // 2)]
    model = DiT(args.channels, args.patch, args.dim, args.depth, args.heads, args.classes)
    model.to(device)
    ema = copy.deepcopy(model).requires_grad_(False).eval()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.0)
    model.train()
    for step in range(args.steps):
        height, width = buckets[step % len(buckets)]
        batch = args.tokens * args.patch**2 // (height * width)
        x = torch.randn(batch, args.channels, height, width, device=device)
        y = torch.randint(0, args.classes, (batch,), device=device)
        y = torch.where(torch.rand(batch, device=device) < 0.1, args.classes, y)
        t = torch.sigmoid(torch.randn(batch, device=device))
        noise = torch.randn_like(x)
        tt = t.view(-1, 1, 1, 1)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            velocity = model((1 - tt) * x + tt * noise, t, y)
        loss = F.mse_loss(velocity.float(), noise - x)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        torch._foreach_lerp_(list(ema.parameters()), list(model.parameters()), 1e-3)
        print(f"step {step} bucket {height}x{width} batch {batch} loss {loss.item():.4f}")
    with torch.autocast("cuda", dtype=torch.bfloat16):
        shape = (4, args.channels, *buckets[1])
        picture = generate(ema, shape, 7, args.classes, 5, 3.0, device)
    print("generated", tuple(picture.shape), f"std {picture.std().item():.3f}")


if __name__ == "__main__":
    main()
