"""Latent diffusion from text: a frozen text encoder, cross attention, EMA, samples by DDIM."""

import argparse
import copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from transformers import CLIPTextConfig, CLIPTextModel


class TimedBlock(nn.Module):
    def __init__(self, width_in, width, timed):
        super().__init__()
        self.norm1 = nn.GroupNorm(32, width_in)
        self.conv1 = nn.Conv2d(width_in, width, 3, padding=1)
        self.time = nn.Linear(timed, 2 * width)
        self.norm2 = nn.GroupNorm(32, width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1)
        self.skip = nn.Conv2d(width_in, width, 1) if width_in != width else nn.Identity()

    def forward(self, x, t):
        h = self.conv1(F.silu(self.norm1(x)))
        scale, shift = self.time(F.silu(t))[:, :, None, None].chunk(2, dim=1)
        h = self.conv2(F.silu(self.norm2(h) * (1 + scale) + shift))
        return h + self.skip(x)


class TextBlock(nn.Module):
    """Self attention, attention to the words, and a gated feed-forward."""

    def __init__(self, width, words, heads):
        super().__init__()
        self.norm = nn.GroupNorm(32, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.own = nn.MultiheadAttention(width, heads, batch_first=True)
        self.cross = nn.MultiheadAttention(width, heads, kdim=words, vdim=words, batch_first=True)
        self.wide = nn.Linear(width, 8 * width)
        self.narrow = nn.Linear(4 * width, width)

    def forward(self, x, words):
        B, C, H, W = x.shape
        h = self.norm(x).flatten(2).transpose(1, 2)
        n = self.norms[0](h)
        h = h + self.own(n, n, n, need_weights=False)[0]
        h = h + self.cross(self.norms[1](h), words, words, need_weights=False)[0]
        a, gate = self.wide(self.norms[2](h)).chunk(2, -1)
        h = h + self.narrow(a * F.gelu(gate))
        return x + h.transpose(1, 2).view(B, C, H, W)


class UNet(nn.Module):
    def __init__(self, base, words, levels=(1, 2, 4)):
        super().__init__()
        timed = 4 * base
        self.base = base
        self.time = nn.Sequential(nn.Linear(base, timed), nn.SiLU(), nn.Linear(timed, timed))
        self.first = nn.Conv2d(4, base, 3, padding=1)
        self.down, self.up = nn.ModuleList(), nn.ModuleList()
        widths, last = [], base
        for i, factor in enumerate(levels):
            width = factor * base
            stride = 2 if i < len(levels) - 1 else 1
            self.down.append(
                nn.ModuleList(
                    [
                        TimedBlock(last, width, timed),
                        TextBlock(width, words, 8),
                        nn.Conv2d(width, width, 3, stride=stride, padding=1),
                    ]
                )
            )
            widths.append(width)
            last = width
        self.middle = TimedBlock(last, last, timed)
        for width in reversed(widths):
            self.up.append(
                nn.ModuleList([TimedBlock(last + width, width, timed), TextBlock(width, words, 8)])
            )
            last = width
        self.out = nn.Sequential(nn.GroupNorm(32, last), nn.SiLU(), nn.Conv2d(last, 4, 3, 1, 1))

    def forward(self, x, t, words):
        half = self.base // 2
        rates = torch.exp(-math.log(10000) * torch.arange(half, device=x.device) / half)
        angles = t[:, None].float() * rates
        t = self.time(torch.cat([angles.sin(), angles.cos()], dim=1))
        h, skips = self.first(x), []
        for block, attend, shrink in self.down:
            h = attend(block(h, t), words)
            skips.append(h)
            h = shrink(h)
        h = self.middle(h, t)
        for block, attend in self.up:
            skip = skips.pop()
            if h.shape[-1] != skip.shape[-1]:
                h = F.interpolate(h, scale_factor=2, mode="nearest")
            h = attend(block(torch.cat([h, skip], 1), t), words)
        return self.out(h)


@torch.no_grad()
def ddim(model, words, empty, alphas, shape, steps, guidance=6.0):
    x = torch.randn(shape, device=words.device)
    times = torch.linspace(len(alphas) - 1, 0, steps + 1).long().tolist()
    both = torch.cat([words, empty])
    for now, after in zip(times, times[1:]):
        t = torch.full((2 * len(x),), now, device=x.device)
        told, untold = model(torch.cat([x, x]), t, both).float().chunk(2)
        noise = untold + guidance * (told - untold)
        clean = (x - (1 - alphas[now]).sqrt() * noise) / alphas[now].sqrt()
        x = alphas[after].sqrt() * clean + (1 - alphas[after]).sqrt() * noise
    return x


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--latent", type=int, default=48)
    parser.add_argument("--base", type=int, default=192)
    parser.add_argument("--text-width", type=int, default=512)
    parser.add_argument("--text-layers", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=77)
    parser.add_argument("--samples", type=int, default=8)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    text = CLIPTextModel(
        CLIPTextConfig(
            hidden_size=args.text_width,
            intermediate_size=4 * args.text_width,
            num_hidden_layers=args.text_layers,
            num_attention_heads=args.text_width // 64,
            max_position_embeddings=args.tokens,
        )
    )
    text = text.to(device, torch.bfloat16).eval().requires_grad_(False)
    model = UNet(args.base, args.text_width).to(device)
    average = copy.deepcopy(model).requires_grad_(False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=1e-2)
    betas = torch.linspace(0.00085**0.5, 0.012**0.5, 1000, device=device) ** 2
    alphas = (1 - betas).cumprod(0)

    def encode(ids):
        with torch.no_grad():
            return text(input_ids=ids).last_hidden_state.float()

    empty = torch.zeros(1, args.tokens, dtype=torch.long, device=device)
    for step in range(args.steps):
        latents = torch.randn(args.batch_size, 4, args.latent, args.latent, device=device)
        ids = torch.randint(1, 49000, (args.batch_size, args.tokens), device=device)
        ids[torch.rand(len(ids), device=device) < 0.1] = 0
        words = encode(ids)
        t = torch.randint(0, 1000, (len(latents),), device=device)
        noise = torch.randn_like(latents)
        a = alphas[t][:, None, None, None]
        with torch.autocast(device.type, dtype=torch.bfloat16):
            guess = model(a.sqrt() * latents + (1 - a).sqrt() * noise, t, words)
        ratio = a.flatten() / (1 - a.flatten())
        weight = ratio.clamp(max=5) / ratio
        loss = (weight * (guess.float() - noise).square().mean((1, 2, 3))).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for mine, theirs in zip(average.parameters(), model.parameters()):
                mine.lerp_(theirs, 0.001)
        print(f"step {step}: {loss.item():.4f}")

    shape = (args.samples, 4, args.latent, args.latent)
    words = encode(torch.randint(1, 49000, (args.samples, args.tokens), device=device))
    with torch.autocast(device.type, dtype=torch.bfloat16):
        x = ddim(average.eval(), words, encode(empty).expand_as(words), alphas, shape, steps=10)
    print("samples", tuple(x.shape), x.std().item())


if __name__ == "__main__":
    main()
