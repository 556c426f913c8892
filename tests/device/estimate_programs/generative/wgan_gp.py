"""Wasserstein GAN with gradient penalty: a second derivative through a convolutional critic."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


class UpBlock(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.norm1, self.norm2 = nn.BatchNorm2d(inputs), nn.BatchNorm2d(outputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.skip = nn.Conv2d(inputs, outputs, 1)

    def forward(self, x):
        h = F.interpolate(F.relu(self.norm1(x)), scale_factor=2)
        h = self.conv2(F.relu(self.norm2(self.conv1(h))))
        return h + self.skip(F.interpolate(x, scale_factor=2))


class Generator(nn.Module):
    def __init__(self, latent, width):
        super().__init__()
        self.width = width
        self.first = nn.Linear(latent, width * 16)
        self.blocks = nn.Sequential(*[UpBlock(width, width) for _ in range(3)])
        self.last = nn.Conv2d(width, 3, 3, padding=1)

    def forward(self, z):
        return torch.tanh(self.last(F.relu(self.blocks(self.first(z).view(-1, self.width, 4, 4)))))


class DownBlock(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.skip = nn.Conv2d(inputs, outputs, 1)

    def forward(self, x):
        h = self.conv2(F.leaky_relu(self.conv1(F.leaky_relu(x, 0.2)), 0.2))
        return F.avg_pool2d(h, 2) + self.skip(F.avg_pool2d(x, 2))


class Critic(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.blocks = nn.Sequential(
            DownBlock(3, width), DownBlock(width, width), DownBlock(width, width)
        )
        self.last = nn.Linear(width, 1)

    def forward(self, x):
        return self.last(F.leaky_relu(self.blocks(x), 0.2).mean((2, 3))).squeeze(1)


def gradient_penalty(critic, real, fake):
    mix = torch.rand(len(real), 1, 1, 1, device=real.device)
    between = (mix * real + (1 - mix) * fake).requires_grad_(True)
    (gradient,) = torch.autograd.grad(critic(between).sum(), between, create_graph=True)
    return ((gradient.flatten(1).norm(2, dim=1) - 1) ** 2).mean()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--latent", type=int, default=128)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--critic-steps", type=int, default=3)
    parser.add_argument("--steps", type=int, default=3)
    args = parser.parse_args()
    torch.manual_seed(5)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    generator = Generator(args.latent, args.width).to(device)
    critic = Critic(args.width).to(device)
    options = {"lr": 2e-4, "betas": (0.0, 0.9)}
    generator_optimizer = torch.optim.Adam(generator.parameters(), **options)
    critic_optimizer = torch.optim.Adam(critic.parameters(), **options)
    for step in range(args.steps):
        for _ in range(args.critic_steps):
            real = torch.rand(args.batch_size, 3, 32, 32, device=device) * 2 - 1
            with torch.no_grad():
                fake = generator(torch.randn(args.batch_size, args.latent, device=device))
            loss = critic(fake).mean() - critic(real).mean()
            loss = loss + 10 * gradient_penalty(critic, real, fake)
            critic_optimizer.zero_grad()
            loss.backward()
            critic_optimizer.step()
        critic.requires_grad_(False)
        made = generator(torch.randn(args.batch_size, args.latent, device=device))
        generator_loss = -critic(made).mean()
        generator_optimizer.zero_grad()
        generator_loss.backward()
        generator_optimizer.step()
        critic.requires_grad_(True)
        print(f"step {step} critic {loss.item():.4f} generator {generator_loss.item():.4f}")


if __name__ == "__main__":
    main()
