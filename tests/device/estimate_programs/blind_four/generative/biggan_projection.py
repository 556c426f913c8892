"""A class-conditional GAN: spectral norms, a projection discriminator, hinge losses."""

import argparse
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.parametrizations import spectral_norm


class ClassNorm(nn.Module):
    def __init__(self, channels, condition):
        super().__init__()
        self.norm = nn.BatchNorm2d(channels, affine=False)
        self.affine = spectral_norm(nn.Linear(condition, 2 * channels))

    def forward(self, x, c):
        scale, shift = self.affine(c)[:, :, None, None].chunk(2, 1)
        return self.norm(x) * (1 + scale) + shift


class Up(nn.Module):
    def __init__(self, inputs, outputs, condition):
        super().__init__()
        self.norm1, self.norm2 = ClassNorm(inputs, condition), ClassNorm(outputs, condition)
        self.conv1 = spectral_norm(nn.Conv2d(inputs, outputs, 3, padding=1))
        self.conv2 = spectral_norm(nn.Conv2d(outputs, outputs, 3, padding=1))
        self.skip = spectral_norm(nn.Conv2d(inputs, outputs, 1))

    def forward(self, x, c):
        h = F.interpolate(F.relu(self.norm1(x, c)), scale_factor=2)
        h = self.conv2(F.relu(self.norm2(self.conv1(h), c)))
        return h + self.skip(F.interpolate(x, scale_factor=2))


class Generator(nn.Module):
    def __init__(self, noise, classes, base, ups):
        super().__init__()
        self.label = nn.Embedding(classes, 128)
        condition = noise + 128
        widths = [base * 2**i for i in range(ups, -1, -1)]
        self.first = spectral_norm(nn.Linear(noise, widths[0] * 16))
        self.blocks = nn.ModuleList([Up(a, b, condition) for a, b in zip(widths, widths[1:])])
        self.last = nn.Sequential(
            nn.BatchNorm2d(base), nn.ReLU(), spectral_norm(nn.Conv2d(base, 3, 3, padding=1))
        )

    def forward(self, z, labels):
        c = torch.cat([z, self.label(labels)], 1)
        x = self.first(z).view(len(z), -1, 4, 4)
        for block in self.blocks:
            x = block(x, c)
        return torch.tanh(self.last(x))


class Discriminator(nn.Module):
    def __init__(self, classes, base, downs):
        super().__init__()
        layers, inputs = [], 3
        for i in range(downs):
            outputs = base * 2**i
            layers += [
                spectral_norm(nn.Conv2d(inputs, outputs, 3, padding=1)),
                nn.LeakyReLU(0.1),
                spectral_norm(nn.Conv2d(outputs, outputs, 4, stride=2, padding=1)),
                nn.LeakyReLU(0.1),
            ]
            inputs = outputs
        self.body = nn.Sequential(*layers)
        self.score = spectral_norm(nn.Linear(inputs, 1))
        self.label = spectral_norm(nn.Embedding(classes, inputs))

    def forward(self, x, labels):
        h = self.body(x).sum((2, 3))
        return self.score(h).squeeze(1) + (self.label(labels) * h).sum(1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--base", type=int, default=48)
    parser.add_argument("--ups", type=int, default=4)
    parser.add_argument("--noise", type=int, default=120)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--critic", type=int, default=2)
    parser.add_argument("--steps", type=int, default=3)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    G = Generator(args.noise, args.classes, args.base, args.ups).to(device)
    D = Discriminator(args.classes, args.base, args.ups).to(device)
    shown = copy.deepcopy(G.state_dict())
    optimizer_g = torch.optim.Adam(G.parameters(), lr=1e-4, betas=(0.0, 0.999))
    optimizer_d = torch.optim.Adam(D.parameters(), lr=4e-4, betas=(0.0, 0.999))
    side = 4 * 2**args.ups

    def draw():
        z = torch.randn(args.batch_size, args.noise, device=device)
        return z, torch.randint(args.classes, (args.batch_size,), device=device)

    for step in range(args.steps):
        D.requires_grad_(True)
        for _ in range(args.critic):
            real = torch.rand(args.batch_size, 3, side, side, device=device) * 2 - 1
            z, labels = draw()
            with torch.no_grad():
                fake = G(z, labels)
            scores = D(torch.cat([real, fake]), torch.cat([draw()[1], labels]))
            on_real, on_fake = scores.chunk(2)
            d_loss = F.relu(1 - on_real).mean() + F.relu(1 + on_fake).mean()
            optimizer_d.zero_grad()
            d_loss.backward()
            optimizer_d.step()
        D.requires_grad_(False)
        z, labels = draw()
        g_loss = -D(G(z, labels), labels).mean()
        optimizer_g.zero_grad()
        g_loss.backward()
        optimizer_g.step()
        for name, value in G.state_dict().items():
            if value.is_floating_point():
                shown[name].lerp_(value, 0.001)
        print(f"step {step}: d {d_loss.item():.3f} g {g_loss.item():.3f}")


if __name__ == "__main__":
    main()
