"""DDPM on small images: a U-Net with time embeddings and attention, bf16, cosine noise, samples."""

import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


def time_embedding(t, dim):
    speed = torch.exp(-math.log(10000) * torch.arange(dim // 2, device=t.device) / (dim // 2))
    angle = t[:, None].float() * speed[None]
    return torch.cat([angle.sin(), angle.cos()], 1)


class ResBlock(nn.Module):
    def __init__(self, inputs, outputs, time):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(8, inputs), nn.GroupNorm(8, outputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.time = nn.Linear(time, 2 * outputs)
        self.skip = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x, t):
        h = self.conv1(F.silu(self.norm1(x)))
        scale, shift = self.time(F.silu(t))[:, :, None, None].chunk(2, 1)
        h = self.norm2(h) * (1 + scale) + shift
        return self.conv2(F.silu(h)) + self.skip(x)


class SelfAttention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.GroupNorm(8, width)
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)

    def forward(self, x):
        h = self.norm(x).flatten(2).transpose(1, 2)
        h, _ = self.attention(h, h, h, need_weights=False)
        return x + h.transpose(1, 2).reshape(x.shape)


class UNet(nn.Module):
    def __init__(self, base, mults):
        super().__init__()
        time = 4 * base
        self.base = base
        self.embed = nn.Sequential(nn.Linear(base, time), nn.SiLU(), nn.Linear(time, time))
        self.first = nn.Conv2d(3, base, 3, padding=1)
        widths = [base * m for m in mults]
        self.down, self.up = nn.ModuleList(), nn.ModuleList()
        width = base
        for w in widths:
            self.down.append(nn.ModuleList([ResBlock(width, w, time), nn.Conv2d(w, w, 3, 2, 1)]))
            width = w
        self.middle1, self.middle2 = ResBlock(width, width, time), ResBlock(width, width, time)
        self.attention = SelfAttention(width)
        for w in reversed(widths):
            self.up.append(
                nn.ModuleList([nn.ConvTranspose2d(width, w, 4, 2, 1), ResBlock(2 * w, w, time)])
            )
            width = w
        self.last = nn.Sequential(nn.GroupNorm(8, width), nn.SiLU(), nn.Conv2d(width, 3, 1))

    def forward(self, x, t):
        t = self.embed(time_embedding(t, self.base))
        x, kept = self.first(x), []
        for block, shrink in self.down:
            x = block(x, t)
            kept.append(x)
            x = shrink(x)
        x = self.middle2(self.attention(self.middle1(x, t)), t)
        for grow, block in self.up:
            x = block(torch.cat([grow(x), kept.pop()], 1), t)
        return self.last(x)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--base", type=int, default=96)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--sample-steps", type=int, default=5)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = "cuda"
    model = UNet(args.base, (1, 2, 4)).to(device)
    t = torch.linspace(0, 1, 1001)
    signal = (torch.cos((t + 0.008) / 1.008 * math.pi / 2) ** 2).clamp(1e-4, 0.9999).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-4)
    for step in range(args.steps):
        x = torch.rand(args.batch_size, 3, args.size, args.size).to(device) * 2 - 1
        t = torch.randint(0, 1000, (args.batch_size,), device=device)
        noise = torch.randn_like(x)
        a = signal[t][:, None, None, None]
        with torch.autocast(device, dtype=torch.bfloat16):
            predicted = model(a.sqrt() * x + (1 - a).sqrt() * noise, t)
            loss = F.mse_loss(predicted.float(), noise)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        print(step, loss.item())
    model.eval()
    x = torch.randn(8, 3, args.size, args.size, device=device)
    times = torch.linspace(999, 0, args.sample_steps + 1).long().tolist()
    with torch.no_grad():
        for now, then in zip(times, times[1:]):
            noise = model(x, torch.full((8,), now, device=device))
            clean = (x - (1 - signal[now]).sqrt() * noise) / signal[now].sqrt()
            x = signal[then].sqrt() * clean.clamp(-1, 1) + (1 - signal[then]).sqrt() * noise
    print(x.abs().mean().item())


if __name__ == "__main__":
    main()
