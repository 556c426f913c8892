"""A convolutional variational autoencoder with an annealed KL term and a summary of samples."""

import argparse

import torch
from torch import nn
from torch.distributions import Independent, Normal, kl_divergence


def down(inputs, outputs):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 4, 2, 1), nn.BatchNorm2d(outputs), nn.ELU(inplace=True)
    )


def up(inputs, outputs):
    return nn.Sequential(
        nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False),
        nn.Conv2d(inputs, outputs, 3, padding=1),
        nn.BatchNorm2d(outputs),
        nn.ELU(inplace=True),
    )


class VAE(nn.Module):
    def __init__(self, size=128, latent=256, base=64):
        super().__init__()
        self.side = size // 16
        self.wide = 8 * base
        self.encoder = nn.Sequential(
            down(3, base), down(base, 2 * base), down(2 * base, 4 * base), down(4 * base, 8 * base)
        )
        flat = self.wide * self.side**2
        self.mean = nn.Linear(flat, latent)
        self.log_scale = nn.Linear(flat, latent)
        self.expand = nn.Linear(latent, flat)
        self.decoder = nn.Sequential(
            up(8 * base, 4 * base), up(4 * base, 2 * base), up(2 * base, base), up(base, base)
        )
        self.pixels = nn.Conv2d(base, 3, 3, padding=1)

    def encode(self, x):
        h = self.encoder(x).flatten(1)
        return Independent(Normal(self.mean(h), self.log_scale(h).clamp(-8, 8).exp()), 1)

    def decode(self, z):
        h = self.expand(z).view(-1, self.wide, self.side, self.side)
        return torch.sigmoid(self.pixels(self.decoder(h)))

    def forward(self, x):
        posterior = self.encode(x)
        return self.decode(posterior.rsample()), posterior


def elbo(model, x, beta):
    made, posterior = model(x)
    zero = torch.zeros_like(posterior.mean)
    prior = Independent(Normal(zero, torch.ones_like(zero)), 1)
    reconstruction = nn.functional.binary_cross_entropy(made, x, reduction="sum") / len(x)
    kl = kl_divergence(posterior, prior).mean()
    return reconstruction + beta * kl, reconstruction, kl


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--base", type=int, default=64)
    parser.add_argument("--latent", type=int, default=256)
    parser.add_argument("--steps", type=int, default=5)
    args = parser.parse_args()
    torch.manual_seed(4)
    model = VAE(args.size, args.latent, args.base).cuda()
    optimizer = torch.optim.Adamax(model.parameters(), lr=1e-3)
    for step in range(args.steps):
        x = torch.rand(args.batch_size, 3, args.size, args.size).cuda()
        beta = min(1.0, (step + 1) / args.steps)
        loss, reconstruction, kl = elbo(model, x, beta)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 100.0)
        optimizer.step()
        print(
            f"step {step} -elbo {loss.item():.1f} ({reconstruction.item():.1f} + {kl.item():.2f})"
        )
    model.eval()
    with torch.no_grad():
        images = model.decode(torch.randn(64, args.latent).cuda())
    print(f"samples: mean {images.mean().item():.4f}, deviation {images.std().item():.4f}")


if __name__ == "__main__":
    main()
