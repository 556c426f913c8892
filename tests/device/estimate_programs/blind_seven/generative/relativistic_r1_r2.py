"""A residual GAN with a relativistic loss and zero-centred gradient penalties on real and on
generated pictures, and an averaged generator.
"""

import argparse
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F


class Residual(nn.Module):
    def __init__(self, channels, groups=16, expand=2):
        super().__init__()
        mid = channels * expand
        self.a = nn.Conv2d(channels, mid, 1, bias=False)
        self.b = nn.Conv2d(mid, mid, 3, padding=1, groups=mid // groups, bias=False)
        self.c = nn.Conv2d(mid, channels, 1, bias=False)
        for conv in (self.a, self.b):
            nn.init.kaiming_normal_(conv.weight, a=0.2)
        nn.init.zeros_(self.c.weight)

    def forward(self, x):
        y = F.leaky_relu(self.a(x), 0.2)
        y = F.leaky_relu(self.b(y), 0.2)
        return x + self.c(y)


class Generator(nn.Module):
    def __init__(self, latent, channels, blocks):
        super().__init__()
        self.basis = nn.Parameter(torch.randn(channels[0], 4, 4))
        self.project = nn.Linear(latent, channels[0], bias=False)
        self.stages = nn.ModuleList()
        for i, c in enumerate(channels):
            layers = [Residual(c) for _ in range(blocks)]
            if i > 0:
                layers.insert(0, nn.Conv2d(channels[i - 1], c, 1, bias=False))
                layers.insert(0, nn.Upsample(scale_factor=2, mode="bilinear"))
            self.stages.append(nn.Sequential(*layers))
        self.rgb = nn.Conv2d(channels[-1], 3, 1)

    def forward(self, z):
        x = self.basis * self.project(z)[:, :, None, None]
        for stage in self.stages:
            x = stage(x)
        return self.rgb(x)


class Discriminator(nn.Module):
    def __init__(self, channels, blocks):
        super().__init__()
        widths = channels[::-1]
        self.rgb = nn.Conv2d(3, widths[0], 1)
        self.stages = nn.ModuleList()
        for i, c in enumerate(widths):
            layers = [Residual(c) for _ in range(blocks)]
            if i + 1 < len(widths):
                layers += [nn.AvgPool2d(2), nn.Conv2d(c, widths[i + 1], 1, bias=False)]
            self.stages.append(nn.Sequential(*layers))
        self.final = nn.Conv2d(widths[-1], widths[-1], 4, groups=widths[-1], bias=False)
        self.score = nn.Linear(widths[-1], 1, bias=False)

    def forward(self, x):
        x = self.rgb(x)
        for stage in self.stages:
            x = stage(x)
        return self.score(self.final(x).flatten(1)).squeeze(1)


def penalty(pictures, scores):
    (grad,) = torch.autograd.grad(scores.sum(), pictures, create_graph=True)
    return grad.square().sum(dim=(1, 2, 3))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=48)
    parser.add_argument("--channels", type=int, nargs="+", default=[512, 512, 384, 256, 128])
    parser.add_argument("--blocks", type=int, default=2)
    parser.add_argument("--latent", type=int, default=128)
    parser.add_argument("--gamma", type=float, default=0.5)
    parser.add_argument("--rounds", type=int, default=4)
    args = parser.parse_args()

    torch.manual_seed(0)
    device = torch.device("cuda")
    size = 4 * 2 ** (len(args.channels) - 1)
    G = Generator(args.latent, args.channels, args.blocks).to(device)
    D = Discriminator(args.channels, args.blocks).to(device)
    G_ema = copy.deepcopy(G).eval().requires_grad_(False)
    opt_g = torch.optim.Adam(G.parameters(), lr=5e-5, betas=(0.0, 0.99))
    opt_d = torch.optim.Adam(D.parameters(), lr=5e-5, betas=(0.0, 0.99))

    for r in range(args.rounds):
        coarse = torch.rand(args.batch_size, 3, 8, 8, device=device) * 2 - 1
        real = F.interpolate(coarse, size=(size, size), mode="bilinear")

        # Discriminator
        D.requires_grad_(True)
        with torch.no_grad():
            fake = G(torch.randn(args.batch_size, args.latent, device=device))
        real_in = real.detach().requires_grad_(True)
        fake_in = fake.detach().requires_grad_(True)
        real_score, fake_score = D(real_in), D(fake_in)
        r1 = penalty(real_in, real_score)
        r2 = penalty(fake_in, fake_score)
        adversarial = F.softplus(fake_score - real_score)
        d_loss = (adversarial + args.gamma / 2 * (r1 + r2)).mean()
        opt_d.zero_grad(set_to_none=True)
        d_loss.backward()
        opt_d.step()

        # Generator
        D.requires_grad_(False)
        fake = G(torch.randn(args.batch_size, args.latent, device=device))
        g_loss = F.softplus(D(real).detach() - D(fake)).mean()
        opt_g.zero_grad(set_to_none=True)
        g_loss.backward()
        opt_g.step()
        with torch.no_grad():
            for slow, fast in zip(G_ema.parameters(), G.parameters()):
                slow.lerp_(fast, 0.01)
        print(
            f"round {r} d {d_loss.item():.4f} g {g_loss.item():.4f} "
            f"r1 {r1.mean().item():.4f} r2 {r2.mean().item():.4f}"
        )
    with torch.no_grad():
        grid = G_ema(torch.randn(16, args.latent, device=device))
    print("grid", tuple(grid.shape), f"{grid.abs().mean().item():.3f}")


if __name__ == "__main__":
    main()
