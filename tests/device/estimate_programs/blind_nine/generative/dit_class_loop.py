"""A diffusion transformer with adaptive layer norms on latents: TF32, EMA, dropped labels."""

import argparse
import math
from collections import OrderedDict
from copy import deepcopy

import torch
import torch.nn as nn
import torch.nn.functional as F


def modulate(x, shift, scale):
    return x * (1 + scale.unsqueeze(1)) + shift.unsqueeze(1)


class DiTBlock(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(dim, elementwise_affine=False, eps=1e-6)
        self.norm2 = nn.LayerNorm(dim, elementwise_affine=False, eps=1e-6)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.mlp = nn.Sequential(
            nn.Linear(dim, 4 * dim), nn.GELU(approximate="tanh"), nn.Linear(4 * dim, dim)
        )
        self.ada = nn.Sequential(nn.SiLU(), nn.Linear(dim, 6 * dim))
        nn.init.zeros_(self.ada[1].weight)
        nn.init.zeros_(self.ada[1].bias)

    def forward(self, x, c):
        shift1, scale1, gate1, shift2, scale2, gate2 = self.ada(c).chunk(6, dim=1)
        B, N, D = x.shape
        h = self.qkv(modulate(self.norm1(x), shift1, scale1))
        q, k, v = h.reshape(B, N, 3, self.heads, D // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        h = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(B, N, D)
        x = x + gate1.unsqueeze(1) * self.proj(h)
        return x + gate2.unsqueeze(1) * self.mlp(modulate(self.norm2(x), shift2, scale2))


class DiT(nn.Module):
    def __init__(self, size, dim, depth, heads, classes):
        super().__init__()
        self.size, self.dim, self.classes = size, dim, classes
        self.patch = nn.Conv2d(4, dim, 2, 2)
        self.places = nn.Parameter(torch.randn(1, (size // 2) ** 2, dim) * 0.02)
        self.time = nn.Sequential(nn.Linear(256, dim), nn.SiLU(), nn.Linear(dim, dim))
        self.label = nn.Embedding(classes + 1, dim)
        self.blocks = nn.ModuleList([DiTBlock(dim, heads) for _ in range(depth)])
        self.norm = nn.LayerNorm(dim, elementwise_affine=False, eps=1e-6)
        self.out = nn.Linear(dim, 2 * 2 * 4)

    def forward(self, x, t, y):
        speed = torch.exp(-math.log(10000) * torch.arange(128, device=x.device) / 128)
        angle = t[:, None].float() * speed
        y = torch.where(torch.rand(y.shape, device=y.device) < 0.1, self.classes, y)
        c = self.time(torch.cat([angle.cos(), angle.sin()], -1)) + self.label(y)
        h = self.patch(x).flatten(2).transpose(1, 2) + self.places
        for block in self.blocks:
            h = block(h, c)
        h = self.out(self.norm(h)).view(-1, self.size // 2, self.size // 2, 2, 2, 4)
        return torch.einsum("nhwpqc->nchpwq", h).reshape(x.shape)


@torch.no_grad()
def update_ema(ema, model, decay=0.9999):
    ema_params = OrderedDict(ema.named_parameters())
    for name, param in model.named_parameters():
        ema_params[name].mul_(decay).add_(param.data, alpha=1 - decay)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--size", type=int, default=32)
    parser.add_argument("--dim", type=int, default=768)
    parser.add_argument("--depth", type=int, default=12)
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cudnn.allow_tf32 = True
    torch.manual_seed(0)
    device = torch.device("cuda")
    model = DiT(args.size, args.dim, args.depth, args.heads, args.classes)
    ema = deepcopy(model).to(device)
    for p in ema.parameters():
        p.requires_grad = False
    model = model.to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0)
    update_ema(ema, model, decay=0)
    signal = torch.linspace(0.9999, 0.98, 1000, device=device).cumprod(0)
    for step in range(args.steps):
        x = torch.randn(args.batch_size, 4, args.size, args.size).to(device)
        y = torch.randint(0, args.classes, (args.batch_size,)).to(device)
        t = torch.randint(0, 1000, (args.batch_size,), device=device)
        noise = torch.randn_like(x)
        a = signal[t].view(-1, 1, 1, 1)
        loss = (model(a.sqrt() * x + (1 - a).sqrt() * noise, t, y) - noise).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        update_ema(ema, model)
        print(f"(step={step:07d}) Train Loss: {loss.item():.4f}")


if __name__ == "__main__":
    main()
