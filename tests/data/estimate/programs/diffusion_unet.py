"""Denoising diffusion: a U-Net with attention and time embeddings, EMA, sampling at the end."""

import argparse
import copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


def time_embedding(t, size):
    rates = torch.exp(-math.log(10000) * torch.arange(size // 2, device=t.device) / (size // 2))
    angles = t[:, None].float() * rates[None]
    return torch.cat([angles.sin(), angles.cos()], dim=-1)


class ResBlock(nn.Module):
    def __init__(self, inputs, outputs, time):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(32, inputs), nn.GroupNorm(32, outputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.time = nn.Linear(time, outputs)
        self.skip = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x, t):
        h = self.conv1(F.silu(self.norm1(x))) + self.time(F.silu(t))[:, :, None, None]
        return self.skip(x) + self.conv2(F.silu(self.norm2(h)))


class Attention(nn.Module):
    def __init__(self, channels, heads=4):
        super().__init__()
        self.heads = heads
        self.norm = nn.GroupNorm(32, channels)
        self.qkv = nn.Conv2d(channels, 3 * channels, 1)
        self.out = nn.Conv2d(channels, channels, 1)

    def forward(self, x):
        b, c, h, w = x.shape
        qkv = self.qkv(self.norm(x)).view(b, 3, self.heads, c // self.heads, h * w)
        q, k, v = qkv.transpose(-1, -2).unbind(1)
        y = F.scaled_dot_product_attention(q, k, v)
        return x + self.out(y.transpose(-1, -2).reshape(b, c, h, w))


class UNet(nn.Module):
    def __init__(self, base=128, multiples=(1, 2, 2)):
        super().__init__()
        time = 4 * base
        self.base = base
        self.embed = nn.Sequential(nn.Linear(base, time), nn.SiLU(), nn.Linear(time, time))
        self.first = nn.Conv2d(3, base, 3, padding=1)
        sizes = [base * m for m in multiples]
        pairs = list(zip([base, *sizes], sizes))
        self.down = nn.ModuleList(ResBlock(a, b, time) for a, b in pairs)
        self.shrink = nn.ModuleList(nn.Conv2d(b, b, 3, 2, 1) for b in sizes)
        self.middle1, self.middle2 = (ResBlock(sizes[-1], sizes[-1], time) for _ in range(2))
        self.attention = Attention(sizes[-1])
        self.up = nn.ModuleList(ResBlock(2 * b, a, time) for a, b in reversed(pairs))
        self.last = nn.Sequential(
            nn.GroupNorm(32, base), nn.SiLU(), nn.Conv2d(base, 3, 3, padding=1)
        )

    def forward(self, x, t):
        t = self.embed(time_embedding(t, self.base))
        x = self.first(x)
        skips = []
        for block, shrink in zip(self.down, self.shrink):
            x = block(x, t)
            skips.append(x)
            x = shrink(x)
        x = self.middle2(self.attention(self.middle1(x, t)), t)
        for block in self.up:
            x = F.interpolate(x, scale_factor=2, mode="nearest")
            x = block(torch.cat([x, skips.pop()], dim=1), t)
        return self.last(x)


@torch.no_grad()
def update_ema(average, model, decay=0.999):
    for a, p in zip(average.parameters(), model.parameters()):
        a.lerp_(p, 1 - decay)


@torch.no_grad()
def sample(model, alphas, shape, device, steps=4):
    x = torch.randn(shape, device=device)
    for t in torch.linspace(len(alphas) - 1, 0, steps).long().tolist():
        noise = model(x, torch.full((shape[0],), t, device=device))
        a = alphas[t]
        x = (x - (1 - a).sqrt() * noise) / a.sqrt()
    return x.clamp(-1, 1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--base", type=int, default=128)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = UNet(args.base).to(device)
    average = copy.deepcopy(model).eval().requires_grad_(False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4)
    alphas = torch.cumprod(1 - torch.linspace(1e-4, 0.02, 1000), dim=0).to(device)
    for step in range(args.steps):
        images = torch.rand(args.batch_size, 3, args.size, args.size, device=device) * 2 - 1
        t = torch.randint(0, 1000, (args.batch_size,), device=device)
        noise = torch.randn_like(images)
        a = alphas[t].view(-1, 1, 1, 1)
        loss = F.mse_loss(model(a.sqrt() * images + (1 - a).sqrt() * noise, t), noise)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        update_ema(average, model)
        print(f"step {step} loss {loss.item():.4f}")
    images = sample(average, alphas, (16, 3, args.size, args.size), device)
    print(f"samples: mean {images.mean().item():.3f}")


if __name__ == "__main__":
    main()
