"""An energy-based model of images: negatives by Langevin steps from a buffer."""

import argparse
import random

import torch
import torch.nn as nn
import torch.nn.functional as F


class Energy(nn.Module):
    def __init__(self, base):
        super().__init__()
        layers, inputs = [], 3
        for width in (base, 2 * base, 4 * base, 8 * base):
            layers += [
                nn.Conv2d(inputs, width, 3, padding=1),
                nn.SiLU(),
                nn.Conv2d(width, width, 3, stride=2, padding=1),
                nn.SiLU(),
            ]
            inputs = width
        self.body = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.out = nn.Linear(inputs, 1)

    def forward(self, x):
        return self.out(self.body(x)).squeeze(1)


class Buffer:
    def __init__(self, size, shape, device):
        self.images = torch.rand(size, *shape, device=device) * 2 - 1
        self.rng = random.Random(0)

    def draw(self, count):
        self.places = torch.tensor(self.rng.sample(range(len(self.images)), count))
        chosen = self.images[self.places.to(self.images.device)].clone()
        fresh = torch.tensor([self.rng.random() < 0.05 for _ in range(count)])
        fresh = fresh.to(chosen.device).view(-1, 1, 1, 1)
        return torch.where(fresh, torch.rand_like(chosen) * 2 - 1, chosen)

    def put(self, images):
        self.images[self.places.to(self.images.device)] = images


def langevin(model, x, steps, size):
    model.requires_grad_(False).eval()
    for _ in range(steps):
        x = x.detach().add_(torch.randn_like(x), alpha=0.005).clamp_(-1, 1).requires_grad_()
        (grad,) = torch.autograd.grad(model(x).sum(), x)
        x = (x.detach() - size * grad.clamp(-0.03, 0.03)).clamp_(-1, 1)
    model.requires_grad_(True).train()
    return x


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--base", type=int, default=64)
    parser.add_argument("--buffer", type=int, default=8192)
    parser.add_argument("--langevin", type=int, default=20)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(8)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Energy(args.base).to(device)
    buffer = Buffer(args.buffer, (3, args.size, args.size), device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.0, 0.999))
    for step in range(args.steps):
        real = torch.rand(args.batch_size, 3, args.size, args.size, device=device) * 2 - 1
        real = real + 0.005 * torch.randn_like(real)
        fake = langevin(model, buffer.draw(args.batch_size), args.langevin, 10.0)
        buffer.put(fake)
        on_real, on_fake = model(torch.cat([real, fake])).chunk(2)
        loss = on_real.mean() - on_fake.mean() + 0.1 * (on_real**2 + on_fake**2).mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
        gap = F.softplus(on_real - on_fake).mean()
        print(f"step {step}: loss {loss.item():.5f} gap {gap.item():.4f}")


if __name__ == "__main__":
    main()
