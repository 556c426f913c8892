"""A DDPM that fills holes in pictures: UNet with attention, an EMA, DDIM at the end."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn


class Res(nn.Module):
    def __init__(self, c_in, c_out, time):
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(8, c_in), nn.Conv2d(c_in, c_out, 3, padding=1)
        self.norm2, self.conv2 = nn.GroupNorm(8, c_out), nn.Conv2d(c_out, c_out, 3, padding=1)
        self.time = nn.Linear(time, 2 * c_out)
        self.skip = nn.Conv2d(c_in, c_out, 1) if c_in != c_out else nn.Identity()

    def forward(self, x, t):
        h = self.conv1(F.silu(self.norm1(x)))
        scale, shift = self.time(t)[:, :, None, None].chunk(2, dim=1)
        return self.skip(x) + self.conv2(F.silu(self.norm2(h) * (1 + scale) + shift))


class Attend(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = nn.GroupNorm(8, channels)
        self.attention = nn.MultiheadAttention(channels, 4, batch_first=True)

    def forward(self, x):
        h = self.norm(x).flatten(2).transpose(1, 2)
        h, _ = self.attention(h, h, h, need_weights=False)
        return x + h.transpose(1, 2).view_as(x)


class UNet(nn.Module):
    def __init__(self, base, time=256):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(1, time), nn.SiLU(), nn.Linear(time, time))
        self.first = nn.Conv2d(7, base, 3, padding=1)
        widths = [base, base, 2 * base, 4 * base]
        self.down = nn.ModuleList(Res(a, b, time) for a, b in zip(widths[:-1], widths[1:]))
        self.mid1, self.attend = Res(4 * base, 4 * base, time), Attend(4 * base)
        self.mid2 = Res(4 * base, 4 * base, time)
        self.up = nn.ModuleList(Res(b + b, a, time) for a, b in zip(widths[-2::-1], widths[:0:-1]))
        self.last = nn.Sequential(
            nn.GroupNorm(8, base), nn.SiLU(), nn.Conv2d(base, 3, 3, padding=1)
        )

    def forward(self, x, picture, hole, t):
        t = self.time(t.float()[:, None] / 1000)
        x = self.first(torch.cat((x, picture * (1 - hole), hole), dim=1))
        kept = []
        for block in self.down:
            x = block(x, t)
            kept.append(x)
            x = F.avg_pool2d(x, 2)
        x = self.mid2(self.attend(self.mid1(x, t)), t)
        for block in self.up:
            x = F.interpolate(x, scale_factor=2, mode="nearest")
            x = block(torch.cat((x, kept.pop()), dim=1), t)
        return self.last(x)


def holes(n, size, device):
    hole = torch.zeros(n, 1, size, size, device=device)
    for i in range(n):
        y, x = torch.randint(0, size // 2, (2,)).tolist()
        hole[i, :, y : y + size // 2, x : x + size // 2] = 1
    return hole


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--base", type=int, default=64)
    parser.add_argument("--sampling", type=int, default=8)
    args = parser.parse_args()
    torch.manual_seed(18)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = UNet(args.base).to(device)
    ema = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9995))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    alphas = torch.cumprod(1 - torch.linspace(1e-4, 0.02, 1000), 0).to(device)
    for step in range(4):
        picture = torch.rand(args.batch_size, 3, args.size, args.size, device=device) * 2 - 1
        hole = holes(args.batch_size, args.size, device)
        t = torch.randint(0, 1000, (args.batch_size,), device=device)
        a = alphas[t].view(-1, 1, 1, 1)
        noise = torch.randn_like(picture)
        loss = F.mse_loss(
            model(a.sqrt() * picture + (1 - a).sqrt() * noise, picture, hole, t), noise
        )
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        ema.update_parameters(model)
        print(step, loss.item())
    ema.eval()
    x = torch.randn_like(picture)
    times = torch.linspace(999, 0, args.sampling + 1, device=device).long()
    with torch.no_grad():
        for now, then in zip(times[:-1], times[1:]):
            guess = ema(x, picture, hole, now.expand(args.batch_size))
            clean = (x - (1 - alphas[now]).sqrt() * guess) / alphas[now].sqrt()
            x = alphas[then].sqrt() * clean.clamp(-1, 1) + (1 - alphas[then]).sqrt() * guess
    print((picture * (1 - hole) + x * hole).mean().item())


if __name__ == "__main__":
    main()
