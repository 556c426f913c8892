"""A small StyleGAN: mapping network, modulated convolutions, noise, lazy R1 penalty, EMA."""

import argparse
import copy
import math

import torch
import torch.nn.functional as F
from torch import autograd, nn, optim


class Mapping(nn.Module):
    def __init__(self, dim, layers=6):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(dim, dim) for _ in range(layers)])

    def forward(self, z):
        z = z * torch.rsqrt(z.square().mean(1, keepdim=True) + 1e-8)
        for layer in self.layers:
            z = F.leaky_relu(layer(z), 0.2)
        return z


class ModulatedConv(nn.Module):
    def __init__(self, c_in, c_out, kernel, dim, demodulate=True):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(1, c_out, c_in, kernel, kernel))
        self.style = nn.Linear(dim, c_in)
        nn.init.ones_(self.style.bias)
        self.scale = 1 / math.sqrt(c_in * kernel**2)
        self.padding, self.demodulate = kernel // 2, demodulate

    def forward(self, x, w):
        b, c, h, wd = x.shape
        style = self.style(w).view(b, 1, c, 1, 1)
        weight = self.scale * self.weight * style
        if self.demodulate:
            weight = weight * torch.rsqrt(weight.pow(2).sum([2, 3, 4], keepdim=True) + 1e-8)
        out = F.conv2d(
            x.reshape(1, b * c, h, wd), weight.flatten(0, 1), padding=self.padding, groups=b
        )
        return out.view(b, -1, h, wd)


class StyledBlock(nn.Module):
    def __init__(self, c_in, c_out, dim):
        super().__init__()
        self.conv1 = ModulatedConv(c_in, c_out, 3, dim)
        self.conv2 = ModulatedConv(c_out, c_out, 3, dim)
        self.noise = nn.Parameter(torch.zeros(2))
        self.to_rgb = ModulatedConv(c_out, 3, 1, dim, demodulate=False)

    def forward(self, x, w, rgb):
        x = F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
        for i, conv in enumerate((self.conv1, self.conv2)):
            x = conv(x, w)
            x = x + self.noise[i] * torch.randn(len(x), 1, *x.shape[2:], device=x.device)
            x = F.leaky_relu(x, 0.2) * math.sqrt(2)
        new = self.to_rgb(x, w)
        if rgb is not None:
            new = new + F.interpolate(rgb, scale_factor=2, mode="bilinear", align_corners=False)
        return x, new


class Generator(nn.Module):
    def __init__(self, size, base, dim):
        super().__init__()
        self.mapping = Mapping(dim)
        top = int(math.log2(size))
        channels = [min(512, base * 2 ** (top - i)) for i in range(2, top + 1)]
        self.const = nn.Parameter(torch.randn(1, channels[0], 4, 4))
        self.blocks = nn.ModuleList(
            StyledBlock(a, b, dim) for a, b in zip(channels[:-1], channels[1:])
        )

    def forward(self, z):
        w = self.mapping(z)
        x, rgb = self.const.repeat(len(z), 1, 1, 1), None
        for block in self.blocks:
            x, rgb = block(x, w, rgb)
        return rgb


class ResDown(nn.Module):
    def __init__(self, c_in, c_out):
        super().__init__()
        self.conv1 = nn.Conv2d(c_in, c_in, 3, padding=1)
        self.conv2 = nn.Conv2d(c_in, c_out, 3, padding=1)
        self.skip = nn.Conv2d(c_in, c_out, 1, bias=False)

    def forward(self, x):
        y = F.leaky_relu(self.conv2(F.leaky_relu(self.conv1(x), 0.2)), 0.2)
        return (F.avg_pool2d(y, 2) + self.skip(F.avg_pool2d(x, 2))) / math.sqrt(2)


class Discriminator(nn.Module):
    def __init__(self, size, base):
        super().__init__()
        top = int(math.log2(size))
        channels = [min(512, base * 2**i) for i in range(top - 1)]
        self.first = nn.Conv2d(3, channels[0], 1)
        self.blocks = nn.Sequential(*[ResDown(a, b) for a, b in zip(channels, channels[1:])])
        self.final = nn.Conv2d(channels[-1] + 1, 256, 3, padding=1)
        self.out = nn.Linear(256 * 16, 1)

    def forward(self, x):
        x = self.blocks(F.leaky_relu(self.first(x), 0.2))
        std = x.std(0, unbiased=False).mean().expand(len(x), 1, 4, 4)
        x = F.leaky_relu(self.final(torch.cat([x, std], 1)), 0.2)
        return self.out(x.flatten(1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--base", type=int, default=32)
    parser.add_argument("--dim", type=int, default=256)
    parser.add_argument("--r1", type=float, default=10.0)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    G = Generator(args.size, args.base, args.dim).to(device)
    D = Discriminator(args.size, args.base).to(device)
    G_ema = copy.deepcopy(G).eval()
    g_opt = optim.Adam(G.parameters(), lr=2e-3, betas=(0.0, 0.99))
    d_opt = optim.Adam(D.parameters(), lr=2e-3, betas=(0.0, 0.99))
    for step in range(args.steps):
        real = torch.rand(args.batch_size, 3, args.size, args.size).to(device) * 2 - 1
        z = torch.randn(args.batch_size, args.dim, device=device)
        D.requires_grad_(True)
        d_loss = F.softplus(D(G(z).detach())).mean() + F.softplus(-D(real)).mean()
        d_opt.zero_grad()
        d_loss.backward()
        d_opt.step()
        if step % 2 == 0:
            real.requires_grad_(True)
            (grad,) = autograd.grad(D(real).sum(), real, create_graph=True)
            penalty = grad.pow(2).flatten(1).sum(1).mean()
            d_opt.zero_grad()
            (args.r1 / 2 * penalty * 2).backward()
            d_opt.step()
        D.requires_grad_(False)
        g_loss = F.softplus(-D(G(torch.randn_like(z)))).mean()
        g_opt.zero_grad()
        g_loss.backward()
        g_opt.step()
        with torch.no_grad():
            for e, p in zip(G_ema.parameters(), G.parameters()):
                e.copy_(p.lerp(e, 0.999))
        print(f"{step}: d {d_loss.item():.3f} g {g_loss.item():.3f} r1 {penalty.item():.4f}")
    with torch.no_grad():
        images = torch.cat([G_ema(torch.randn(16, args.dim, device=device)) for _ in range(2)])
    print("samples", tuple(images.shape))


if __name__ == "__main__":
    main()
