"""A diffusion transformer (DiT) on latents with adaptive norms, EMA and classifier-free labels."""

import argparse
from copy import deepcopy

import torch
from einops import rearrange
from torch import nn
from torch.nn import functional as F


def modulate(x, shift, scale):
    return x * (1 + scale.unsqueeze(1)) + shift.unsqueeze(1)


class DiTBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
        self.norm2 = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width)
        )
        self.condition = nn.Sequential(nn.SiLU(), nn.Linear(width, 6 * width))
        nn.init.zeros_(self.condition[1].weight)
        nn.init.zeros_(self.condition[1].bias)

    def forward(self, x, c):
        shift1, scale1, gate1, shift2, scale2, gate2 = self.condition(c).chunk(6, dim=1)
        h = modulate(self.norm1(x), shift1, scale1)
        q, k, v = rearrange(self.qkv(h), "b n (t h d) -> t b h n d", t=3, h=self.heads)
        h = rearrange(F.scaled_dot_product_attention(q, k, v), "b h n d -> b n (h d)")
        x = x + gate1.unsqueeze(1) * self.proj(h)
        return x + gate2.unsqueeze(1) * self.mlp(modulate(self.norm2(x), shift2, scale2))


class DiT(nn.Module):
    def __init__(self, size, channels, patch, width, depth, classes):
        super().__init__()
        self.patch, self.channels, self.side = patch, channels, size // patch
        self.embed = nn.Conv2d(channels, width, patch, stride=patch)
        self.position = nn.Parameter(torch.randn(1, self.side**2, width) * 0.02)
        self.time = nn.Sequential(nn.Linear(256, width), nn.SiLU(), nn.Linear(width, width))
        self.label = nn.Embedding(classes + 1, width)
        self.blocks = nn.ModuleList(DiTBlock(width, width // 64) for _ in range(depth))
        self.norm = nn.LayerNorm(width, elementwise_affine=False)
        self.out = nn.Linear(width, patch * patch * channels)

    def forward(self, x, t, labels):
        x = rearrange(self.embed(x), "b c h w -> b (h w) c") + self.position
        rates = torch.exp(-9.2 * torch.arange(128, device=x.device) / 128)
        angles = t[:, None] * 1000 * rates
        c = self.time(torch.cat([angles.cos(), angles.sin()], -1)) + self.label(labels)
        for block in self.blocks:
            x = block(x, c)
        x = self.out(self.norm(x))
        p = self.patch
        return rearrange(x, "b (h w) (p q c) -> b c (h p) (w q)", h=self.side, p=p, q=p)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--size", type=int, default=32)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--depth", type=int, default=12)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = DiT(args.size, 4, 2, args.width, args.depth, 1000).to(device)
    ema = deepcopy(model).requires_grad_(False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0)
    for step in range(args.steps):
        latents = torch.randn(args.batch_size, 4, args.size, args.size, device=device)
        labels = torch.randint(0, 1000, (args.batch_size,), device=device)
        dropped = torch.rand(args.batch_size, device=device) < 0.1
        labels = torch.where(dropped, 1000, labels)
        noise = torch.randn_like(latents)
        t = torch.rand(args.batch_size, device=device)
        mixed = torch.lerp(latents, noise, t.view(-1, 1, 1, 1))
        with torch.autocast(device.type, dtype=torch.bfloat16):
            velocity = model(mixed, t, labels)
        loss = F.mse_loss(velocity.float(), noise - latents)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            torch._foreach_lerp_(list(ema.parameters()), list(model.parameters()), 1e-3)
        print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
