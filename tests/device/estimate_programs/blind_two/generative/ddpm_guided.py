"""Class-conditional DDPM with v-prediction, averaged weights, DDIM sampling with guidance."""

import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn


class Block(nn.Module):
    def __init__(self, c_in, c_out, emb, dropout=0.1):
        super().__init__()
        self.norm1 = nn.GroupNorm(8, c_in)
        self.conv1 = nn.Conv2d(c_in, c_out, 3, padding=1)
        self.film = nn.Linear(emb, 2 * c_out)
        self.norm2 = nn.GroupNorm(8, c_out)
        self.drop = nn.Dropout(dropout)
        self.conv2 = nn.Conv2d(c_out, c_out, 3, padding=1)
        self.short = nn.Conv2d(c_in, c_out, 1) if c_in != c_out else nn.Identity()

    def forward(self, x, emb):
        h = self.conv1(F.silu(self.norm1(x)))
        scale, shift = self.film(emb)[:, :, None, None].chunk(2, dim=1)
        h = self.norm2(h) * (1 + scale) + shift
        return self.short(x) + self.conv2(self.drop(F.silu(h)))


class SelfAttention(nn.Module):
    def __init__(self, channels, heads):
        super().__init__()
        self.norm = nn.GroupNorm(8, channels)
        self.attn = nn.MultiheadAttention(channels, heads, batch_first=True)

    def forward(self, x):
        b, c, h, w = x.shape
        y = self.norm(x).flatten(2).transpose(1, 2)
        y, _ = self.attn(y, y, y, need_weights=False)
        return x + y.transpose(1, 2).reshape(b, c, h, w)


class UNet(nn.Module):
    def __init__(self, classes, c, mults=(1, 2, 4), attn_from=1):
        super().__init__()
        emb = 4 * c
        self.c = c
        self.time = nn.Sequential(nn.Linear(c, emb), nn.SiLU(), nn.Linear(emb, emb), nn.SiLU())
        self.label = nn.Embedding(classes + 1, emb)
        self.stem = nn.Conv2d(3, c, 3, padding=1)
        self.downs, self.ups = nn.ModuleList(), nn.ModuleList()
        channels, skips = c, [c]
        for i, m in enumerate(mults):
            for _ in range(2):
                attn = SelfAttention(c * m, 4) if i >= attn_from else nn.Identity()
                self.downs.append(nn.ModuleList([Block(channels, c * m, emb), attn]))
                channels = c * m
                skips.append(channels)
            if i < len(mults) - 1:
                self.downs.append(nn.ModuleList([nn.AvgPool2d(2)]))
                skips.append(channels)
        self.mid1, self.mid2 = Block(channels, channels, emb), Block(channels, channels, emb)
        self.mid_attn = SelfAttention(channels, 4)
        for i, m in reversed(list(enumerate(mults))):
            for _ in range(3):
                attn = SelfAttention(c * m, 4) if i >= attn_from else nn.Identity()
                self.ups.append(nn.ModuleList([Block(channels + skips.pop(), c * m, emb), attn]))
                channels = c * m
            if i > 0:
                self.ups.append(nn.ModuleList([nn.Upsample(scale_factor=2, mode="bilinear")]))
        self.out = nn.Sequential(nn.GroupNorm(8, c), nn.SiLU(), nn.Conv2d(c, 3, 3, padding=1))

    def forward(self, x, t, y):
        freqs = torch.exp(torch.linspace(0, math.log(1000), self.c // 2, device=x.device))
        angles = t[:, None] * freqs
        emb = self.time(torch.cat([angles.sin(), angles.cos()], 1)) + self.label(y)
        x = self.stem(x)
        skips = [x]
        for module in self.downs:
            x = module[0](x) if len(module) == 1 else module[1](module[0](x, emb))
            skips.append(x)
        x = self.mid2(self.mid_attn(self.mid1(x, emb)), emb)
        for module in self.ups:
            if len(module) == 1:
                x = module[0](x)
            else:
                x = module[1](module[0](torch.cat([x, skips.pop()], 1), emb))
        return self.out(x)


def alpha_sigma(t):
    return torch.cos(t * math.pi / 2), torch.sin(t * math.pi / 2)


@torch.no_grad()
def ddim(model, shape, classes, steps, guidance, device):
    x = torch.randn(shape, device=device)
    y = torch.arange(shape[0], device=device) % classes
    both = torch.cat([y, torch.full_like(y, classes)])
    ts = torch.linspace(1, 0, steps + 1, device=device)
    for t, s in zip(ts[:-1], ts[1:]):
        v = model(torch.cat([x, x]), t.expand(2 * len(x)), both)
        cond, uncond = v.chunk(2)
        v = uncond + guidance * (cond - uncond)
        a, b = alpha_sigma(t)
        x0, eps = a * x - b * v, b * x + a * v
        a, b = alpha_sigma(s)
        x = a * x0.clamp(-1, 1) + b * eps
    return x


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=96)
    parser.add_argument("--image", type=int, default=32)
    parser.add_argument("--channels", type=int, default=96)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--sampling-steps", type=int, default=8)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    net = UNet(args.classes, args.channels).to(device)
    ema = AveragedModel(net, multi_avg_fn=get_ema_multi_avg_fn(0.995))
    opt = torch.optim.Adam(net.parameters(), lr=2e-4)
    shape = (args.batch_size, 3, args.image, args.image)
    for step in range(args.steps):
        images = (torch.rand(shape) * 2 - 1).to(device)
        labels = torch.randint(0, args.classes, (args.batch_size,)).to(device)
        labels[torch.rand(args.batch_size, device=device) < 0.1] = args.classes
        t = torch.rand(args.batch_size, device=device)
        a, b = (f[:, None, None, None] for f in alpha_sigma(t))
        noise = torch.randn_like(images)
        v = net(a * images + b * noise, t, labels)
        loss = F.mse_loss(v, a * noise - b * images)
        opt.zero_grad()
        loss.backward()
        opt.step()
        ema.update_parameters(net)
        print("step", step, "loss", round(loss.item(), 4))
    ema.eval()
    grid = ddim(
        ema, (64, 3, args.image, args.image), args.classes, args.sampling_steps, 2.0, device
    )
    print("samples", grid.shape, "std", round(grid.std().item(), 3))


if __name__ == "__main__":
    main()
