"""A DDPM on pixels with v-prediction, min-SNR weighting and an averaged copy of the weights, which
draws samples with a few DDIM steps at the end.
"""

import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn


def timestep_embedding(t, dim):
    half = dim // 2
    freqs = torch.exp(-math.log(10000) * torch.arange(half, device=t.device) / half)
    angles = t[:, None].float() * freqs[None]
    return torch.cat([angles.cos(), angles.sin()], dim=-1)


class ResBlock(nn.Module):
    def __init__(self, c_in, c_out, emb, dropout=0.1):
        super().__init__()
        self.norm1 = nn.GroupNorm(32, c_in)
        self.conv1 = nn.Conv2d(c_in, c_out, 3, padding=1)
        self.emb = nn.Linear(emb, 2 * c_out)
        self.norm2 = nn.GroupNorm(32, c_out)
        self.dropout = nn.Dropout(dropout)
        self.conv2 = nn.Conv2d(c_out, c_out, 3, padding=1)
        nn.init.zeros_(self.conv2.weight)
        nn.init.zeros_(self.conv2.bias)
        self.skip = nn.Conv2d(c_in, c_out, 1) if c_in != c_out else nn.Identity()

    def forward(self, x, emb):
        h = self.conv1(F.silu(self.norm1(x)))
        scale, shift = self.emb(F.silu(emb))[:, :, None, None].chunk(2, dim=1)
        h = self.norm2(h) * (1 + scale) + shift
        return self.skip(x) + self.conv2(self.dropout(F.silu(h)))


class AttentionBlock(nn.Module):
    def __init__(self, channels, heads=4):
        super().__init__()
        self.heads = heads
        self.norm = nn.GroupNorm(32, channels)
        self.qkv = nn.Conv1d(channels, 3 * channels, 1)
        self.proj = nn.Conv1d(channels, channels, 1)
        nn.init.zeros_(self.proj.weight)

    def forward(self, x):
        b, c, h, w = x.shape
        qkv = self.qkv(self.norm(x).flatten(2))
        q, k, v = qkv.reshape(b, 3, self.heads, c // self.heads, h * w).unbind(1)
        q, k, v = (part.transpose(-1, -2) for part in (q, k, v))
        out = F.scaled_dot_product_attention(q, k, v).transpose(-1, -2).reshape(b, c, h * w)
        return x + self.proj(out).view(b, c, h, w)


class UNet(nn.Module):
    def __init__(self, width=128, mults=(1, 2, 2, 4), blocks=2, attend_at=(2, 3)):
        super().__init__()
        emb = 4 * width
        self.width = width
        self.time = nn.Sequential(nn.Linear(width, emb), nn.SiLU(), nn.Linear(emb, emb))
        self.inp = nn.Conv2d(3, width, 3, padding=1)
        self.down = nn.ModuleList()
        channels, c = [width], width
        for level, mult in enumerate(mults):
            for _ in range(blocks):
                layers = nn.ModuleList([ResBlock(c, width * mult, emb)])
                c = width * mult
                if level in attend_at:
                    layers.append(AttentionBlock(c))
                self.down.append(layers)
                channels.append(c)
            if level < len(mults) - 1:
                self.down.append(nn.ModuleList([nn.Conv2d(c, c, 3, stride=2, padding=1)]))
                channels.append(c)
        self.mid = nn.ModuleList([ResBlock(c, c, emb), AttentionBlock(c), ResBlock(c, c, emb)])
        self.up = nn.ModuleList()
        for level, mult in reversed(list(enumerate(mults))):
            for i in range(blocks + 1):
                layers = nn.ModuleList([ResBlock(c + channels.pop(), width * mult, emb)])
                c = width * mult
                if level in attend_at:
                    layers.append(AttentionBlock(c))
                if i == blocks and level > 0:
                    layers.append(
                        nn.Sequential(
                            nn.Upsample(scale_factor=2, mode="nearest"),
                            nn.Conv2d(c, c, 3, padding=1),
                        )
                    )
                self.up.append(layers)
        self.out = nn.Sequential(nn.GroupNorm(32, c), nn.SiLU(), nn.Conv2d(c, 3, 3, padding=1))

    @staticmethod
    def run(layers, x, emb):
        for layer in layers:
            x = layer(x, emb) if isinstance(layer, ResBlock) else layer(x)
        return x

    def forward(self, x, t):
        emb = self.time(timestep_embedding(t, self.width))
        x = self.inp(x)
        skips = [x]
        for layers in self.down:
            x = self.run(layers, x, emb)
            skips.append(x)
        x = self.run(self.mid, x, emb)
        for layers in self.up:
            x = self.run(layers, torch.cat([x, skips.pop()], dim=1), emb)
        return self.out(x)


def cosine_alphas(steps, device):
    t = torch.linspace(0, 1, steps + 1, device=device)[1:]
    return torch.cos((t * 0.98 + 0.01) * math.pi / 2) ** 2


@torch.no_grad()
def sample(model, alphas, count, size, steps):
    x = torch.randn(count, 3, size, size, device=alphas.device)
    times = torch.linspace(len(alphas) - 1, 0, steps, device=alphas.device).long()
    for i, t in enumerate(times):
        a = alphas[t]
        v = model(x, t.expand(count))
        x0 = (a.sqrt() * x - (1 - a).sqrt() * v).clamp(-1, 1)
        eps = (x - a.sqrt() * x0) / (1 - a).sqrt()
        a_next = alphas[times[i + 1]] if i + 1 < steps else torch.ones_like(a)
        x = a_next.sqrt() * x0 + (1 - a_next).sqrt() * eps
    return x


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=48)
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--blocks", type=int, default=2)
    parser.add_argument("--iterations", type=int, default=5)
    parser.add_argument("--samples", type=int, default=16)
    parser.add_argument("--sample-steps", type=int, default=8)
    parser.add_argument("--gamma", type=float, default=5.0)
    args = parser.parse_args()

    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = UNet(args.width, blocks=args.blocks).to(device)
    ema = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.999))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    alphas = cosine_alphas(1000, device)
    for it in range(args.iterations):
        coarse = torch.rand(args.batch_size, 3, 8, 8, device=device) * 2 - 1
        x0 = F.interpolate(coarse, size=args.size, mode="bilinear", align_corners=False)
        t = torch.randint(0, 1000, (args.batch_size,), device=device)
        a = alphas[t].view(-1, 1, 1, 1)
        noise = torch.randn_like(x0)
        x_t = a.sqrt() * x0 + (1 - a).sqrt() * noise
        target = a.sqrt() * noise - (1 - a).sqrt() * x0
        error = (model(x_t, t) - target).pow(2).mean(dim=(1, 2, 3))
        snr = alphas[t] / (1 - alphas[t])
        loss = (error * snr.clamp(max=args.gamma) / (snr + 1)).mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        ema.update_parameters(model)
        print(f"{it:04d} loss {loss.item():.5f}")
    ema.eval()
    pictures = sample(ema, alphas, args.samples, args.size, args.sample_steps)
    print("samples", tuple(pictures.shape), f"mean {pictures.mean().item():.3f}")


if __name__ == "__main__":
    main()
