"""A residual GAN with spectral norms, hinge losses and class-conditional batch norms; two steps of
the discriminator for one of the generator, and an averaged generator.
"""

import argparse
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.parametrizations import spectral_norm


class ConditionalNorm(nn.Module):
    def __init__(self, channels, classes):
        super().__init__()
        self.norm = nn.BatchNorm2d(channels, affine=False)
        self.embed = nn.Embedding(classes, 2 * channels)
        nn.init.ones_(self.embed.weight[:, :channels].detach())
        nn.init.zeros_(self.embed.weight[:, channels:].detach())

    def forward(self, x, y):
        gain, bias = self.embed(y)[:, :, None, None].chunk(2, 1)
        return self.norm(x) * gain + bias


class GBlock(nn.Module):
    def __init__(self, a, b, classes):
        super().__init__()
        self.n1, self.n2 = ConditionalNorm(a, classes), ConditionalNorm(b, classes)
        self.c1 = nn.Conv2d(a, b, 3, padding=1)
        self.c2 = nn.Conv2d(b, b, 3, padding=1)
        self.skip = nn.Conv2d(a, b, 1)

    def forward(self, x, y):
        h = F.interpolate(F.relu(self.n1(x, y)), scale_factor=2)
        h = self.c2(F.relu(self.n2(self.c1(h), y)))
        return h + self.skip(F.interpolate(x, scale_factor=2))


class Generator(nn.Module):
    def __init__(self, latent, base, blocks, classes):
        super().__init__()
        self.base = base
        self.fc = nn.Linear(latent, base * 16)
        self.blocks = nn.ModuleList(GBlock(base, base, classes) for _ in range(blocks))
        self.out = nn.Sequential(nn.BatchNorm2d(base), nn.ReLU(), nn.Conv2d(base, 3, 3, padding=1))

    def forward(self, z, y):
        x = self.fc(z).view(-1, self.base, 4, 4)
        for block in self.blocks:
            x = block(x, y)
        return torch.tanh(self.out(x))


class DBlock(nn.Module):
    def __init__(self, a, b, down):
        super().__init__()
        self.c1 = spectral_norm(nn.Conv2d(a, b, 3, padding=1))
        self.c2 = spectral_norm(nn.Conv2d(b, b, 3, padding=1))
        self.skip = spectral_norm(nn.Conv2d(a, b, 1))
        self.down = down

    def forward(self, x):
        h = self.c2(F.relu(self.c1(F.relu(x))))
        out = h + self.skip(x)
        return F.avg_pool2d(out, 2) if self.down else out


class Discriminator(nn.Module):
    def __init__(self, base, blocks, classes):
        super().__init__()
        self.blocks = nn.Sequential(
            *(DBlock(3 if i == 0 else base, base, i < blocks - 1) for i in range(blocks))
        )
        self.fc = spectral_norm(nn.Linear(base, 1))
        self.embed = spectral_norm(nn.Embedding(classes, base))

    def forward(self, x, y):
        h = F.relu(self.blocks(x)).sum((2, 3))
        return self.fc(h).squeeze(1) + (self.embed(y) * h).sum(1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--base", type=int, default=256)
    parser.add_argument("--blocks", type=int, default=4)
    parser.add_argument("--latent", type=int, default=128)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda")
    size = 4 * 2**args.blocks
    g = Generator(args.latent, args.base, args.blocks, args.classes).to(device)
    d = Discriminator(args.base, args.blocks, args.classes).to(device)
    averaged = copy.deepcopy(g).eval()
    g_opt = torch.optim.Adam(g.parameters(), lr=2e-4, betas=(0.0, 0.9))
    d_opt = torch.optim.Adam(d.parameters(), lr=2e-4, betas=(0.0, 0.9))

    def draw():
        z = torch.randn(args.batch_size, args.latent, device=device)
        return z, torch.randint(0, args.classes, (args.batch_size,), device=device)

    for i in range(args.rounds):
        for _ in range(2):
            real = torch.rand(args.batch_size, 3, size, size).to(device) * 2 - 1
            z, y = draw()
            with torch.no_grad():
                fake = g(z, y)
            d_loss = F.relu(1 - d(real, y)).mean() + F.relu(1 + d(fake, y)).mean()
            d_opt.zero_grad()
            d_loss.backward()
            d_opt.step()
        z, y = draw()
        d.requires_grad_(False)
        g_loss = -d(g(z, y), y).mean()
        g_opt.zero_grad()
        g_loss.backward()
        g_opt.step()
        d.requires_grad_(True)
        with torch.no_grad():
            for a, b in zip(averaged.parameters(), g.parameters()):
                a.mul_(0.999).add_(b, alpha=0.001)
            for a, b in zip(averaged.buffers(), g.buffers()):
                a.copy_(b)
        print(f"round {i} d {d_loss.item():.3f} g {g_loss.item():.3f}")
    with torch.inference_mode():
        print("samples", averaged(*draw()).std().item())


if __name__ == "__main__":
    main()
