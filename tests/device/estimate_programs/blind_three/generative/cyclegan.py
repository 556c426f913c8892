"""CycleGAN: two generators, two critics of patches, two Adams, and a store of older pictures."""

import argparse
import itertools
import random

import torch
import torch.nn as nn
import torch.nn.functional as F


class Residual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.net = nn.Sequential(
            nn.ReflectionPad2d(1),
            nn.Conv2d(channels, channels, 3),
            nn.InstanceNorm2d(channels),
            nn.ReLU(inplace=True),
            nn.ReflectionPad2d(1),
            nn.Conv2d(channels, channels, 3),
            nn.InstanceNorm2d(channels),
        )

    def forward(self, x):
        return x + self.net(x)


def generator(base, blocks):
    layers = [nn.ReflectionPad2d(3), nn.Conv2d(3, base, 7), nn.InstanceNorm2d(base), nn.ReLU(True)]
    width = base
    for _ in range(2):
        layers += [
            nn.Conv2d(width, 2 * width, 3, stride=2, padding=1),
            nn.InstanceNorm2d(2 * width),
            nn.ReLU(inplace=True),
        ]
        width *= 2
    layers += [Residual(width) for _ in range(blocks)]
    for _ in range(2):
        layers += [
            nn.ConvTranspose2d(width, width // 2, 3, stride=2, padding=1, output_padding=1),
            nn.InstanceNorm2d(width // 2),
            nn.ReLU(inplace=True),
        ]
        width //= 2
    return nn.Sequential(*layers, nn.ReflectionPad2d(3), nn.Conv2d(base, 3, 7), nn.Tanh())


def critic(base):
    layers = [nn.Conv2d(3, base, 4, stride=2, padding=1), nn.LeakyReLU(0.2, inplace=True)]
    width = base
    for stride in (2, 2, 1):
        layers += [
            nn.Conv2d(width, 2 * width, 4, stride=stride, padding=1),
            nn.InstanceNorm2d(2 * width),
            nn.LeakyReLU(0.2, inplace=True),
        ]
        width *= 2
    return nn.Sequential(*layers, nn.Conv2d(width, 1, 4, padding=1))


class Store:
    """Gives back an older picture half of the time."""

    def __init__(self, size=50):
        self.size, self.images = size, []

    def swap(self, batch):
        out = []
        for image in batch.detach():
            if len(self.images) < self.size:
                self.images.append(image.clone())
                out.append(image)
            elif random.random() < 0.5:
                place = random.randrange(self.size)
                out.append(self.images[place])
                self.images[place] = image.clone()
            else:
                out.append(image)
        return torch.stack(out)


def real_or_not(score, real):
    return F.mse_loss(score, torch.full_like(score, float(real)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--base", type=int, default=48)
    parser.add_argument("--blocks", type=int, default=9)
    parser.add_argument("--steps", type=int, default=5)
    args = parser.parse_args()
    torch.manual_seed(0)
    random.seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    forward, back = (generator(args.base, args.blocks).to(device) for _ in range(2))
    critic_a, critic_b = (critic(args.base).to(device) for _ in range(2))
    paint = torch.optim.Adam(
        itertools.chain(forward.parameters(), back.parameters()), lr=2e-4, betas=(0.5, 0.999)
    )
    judge = torch.optim.Adam(
        itertools.chain(critic_a.parameters(), critic_b.parameters()), lr=2e-4, betas=(0.5, 0.999)
    )
    store_a, store_b = Store(), Store()
    for step in range(args.steps):
        a = torch.rand(args.batch_size, 3, args.size, args.size, device=device) * 2 - 1
        b = torch.rand(args.batch_size, 3, args.size, args.size, device=device) * 2 - 1
        for p in itertools.chain(critic_a.parameters(), critic_b.parameters()):
            p.requires_grad_(False)
        fake_b, fake_a = forward(a), back(b)
        cycle = F.l1_loss(back(fake_b), a) + F.l1_loss(forward(fake_a), b)
        same = F.l1_loss(back(a), a) + F.l1_loss(forward(b), b)
        fool = real_or_not(critic_b(fake_b), True) + real_or_not(critic_a(fake_a), True)
        paint.zero_grad()
        (fool + 10 * cycle + 5 * same).backward()
        paint.step()

        for p in itertools.chain(critic_a.parameters(), critic_b.parameters()):
            p.requires_grad_(True)
        judge.zero_grad()
        for score, real, old in (
            (critic_a, a, store_a.swap(fake_a)),
            (critic_b, b, store_b.swap(fake_b)),
        ):
            loss = real_or_not(score(real), True) + real_or_not(score(old), False)
            (0.5 * loss).backward()
        judge.step()
        print(f"step {step}: fool {fool.item():.3f}, cycle {cycle.item():.3f}")


if __name__ == "__main__":
    main()
