"""Pixel diffusion (v-prediction, cosine schedule) with accelerate, EMA and DDIM samples at the
end.
"""

import argparse
import copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset


class Residual(nn.Module):
    def __init__(self, c_in, c_out, time):
        super().__init__()
        self.n1, self.c1 = nn.GroupNorm(8, c_in), nn.Conv2d(c_in, c_out, 3, padding=1)
        self.time = nn.Linear(time, 2 * c_out)
        self.n2, self.c2 = nn.GroupNorm(8, c_out), nn.Conv2d(c_out, c_out, 3, padding=1)
        self.skip = nn.Conv2d(c_in, c_out, 1) if c_in != c_out else nn.Identity()

    def forward(self, x, t):
        h = self.c1(F.silu(self.n1(x)))
        scale, shift = self.time(F.silu(t))[:, :, None, None].chunk(2, dim=1)
        h = self.c2(F.silu(self.n2(h) * (1 + scale) + shift))
        return h + self.skip(x)


class Attend(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.norm = nn.GroupNorm(8, c)
        self.qkv, self.out = nn.Conv2d(c, 3 * c, 1), nn.Conv2d(c, c, 1)

    def forward(self, x):
        B, C, H, W = x.shape
        q, k, v = self.qkv(self.norm(x)).view(B, 3, 4, C // 4, H * W).transpose(3, 4).unbind(1)
        y = F.scaled_dot_product_attention(q, k, v)
        return x + self.out(y.transpose(2, 3).reshape(B, C, H, W))


class UNet(nn.Module):
    def __init__(self, base, levels):
        super().__init__()
        time = 4 * base
        self.base = base
        self.time = nn.Sequential(nn.Linear(base, time), nn.SiLU(), nn.Linear(time, time))
        self.first = nn.Conv2d(3, base, 3, padding=1)
        sizes = [base * min(2**i, 4) for i in range(levels)]
        self.down, self.up = nn.ModuleList(), nn.ModuleList()
        c = base
        for i, size in enumerate(sizes):
            attend = Attend(size) if i >= levels - 2 else nn.Identity()
            self.down.append(nn.ModuleList([Residual(c, size, time), attend]))
            c = size
        self.middle = nn.ModuleList([Residual(c, c, time), Attend(c), Residual(c, c, time)])
        for i, size in reversed(list(enumerate(sizes))):
            attend = Attend(size) if i >= levels - 2 else nn.Identity()
            self.up.append(nn.ModuleList([Residual(c + size, size, time), attend]))
            c = size
        self.last = nn.Sequential(nn.GroupNorm(8, c), nn.SiLU(), nn.Conv2d(c, 3, 3, padding=1))

    def forward(self, x, t):
        frequencies = torch.exp(
            -math.log(1e4) * torch.arange(self.base // 2, device=x.device) / (self.base // 2)
        )
        angles = 1000 * t[:, None] * frequencies
        t = self.time(torch.cat([angles.sin(), angles.cos()], dim=1))
        x = self.first(x)
        skips = []
        for residual, attend in self.down:
            x = attend(residual(x, t))
            skips.append(x)
            x = F.avg_pool2d(x, 2)
        a, attend, b = self.middle
        x = b(attend(a(x, t)), t)
        for residual, attend in self.up:
            skip = skips.pop()
            x = F.interpolate(x, scale_factor=2, mode="nearest")
            x = attend(residual(torch.cat([x, skip], dim=1), t))
        return self.last(x)


def schedule(t):
    return torch.cos(t * math.pi / 2)[:, None, None, None], torch.sin(t * math.pi / 2)[
        :, None, None, None
    ]


@torch.no_grad()
def sample(model, shape, steps, device):
    x = torch.randn(shape, device=device)
    times = torch.linspace(1, 0, steps + 1, device=device)
    for now, then in zip(times, times[1:]):
        a, s = schedule(now.expand(shape[0]))
        v = model(x, now.expand(shape[0]))
        clean, noise = a * x - s * v, s * x + a * v
        a, s = schedule(then.expand(shape[0]))
        x = a * clean.clamp(-1, 1) + s * noise
    return x


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=48)
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--base", type=int, default=96)
    parser.add_argument("--levels", type=int, default=4)
    parser.add_argument("--precision", default="bf16")
    args = parser.parse_args()
    torch.manual_seed(0)
    accelerator = Accelerator(mixed_precision=args.precision)
    model = UNet(args.base, args.levels)
    average = copy.deepcopy(model).requires_grad_(False).to(accelerator.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.95, 0.999))
    images = torch.rand(4 * args.batch_size, 3, args.size, args.size) * 2 - 1
    loader = DataLoader(TensorDataset(images), args.batch_size, shuffle=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for step, (x,) in enumerate(loader):
        t = torch.rand(len(x), device=x.device)
        noise = torch.randn_like(x)
        a, s = schedule(t)
        guess = model(a * x + s * noise, t)
        loss = F.mse_loss(guess.float(), a * noise - s * x)
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            for e, p in zip(average.parameters(), accelerator.unwrap_model(model).parameters()):
                e.lerp_(p, 0.01)
        accelerator.print(step, loss.item())
    pictures = sample(
        average, (args.batch_size // 4, 3, args.size, args.size), 5, accelerator.device
    )
    print(pictures.shape)


if __name__ == "__main__":
    main()
