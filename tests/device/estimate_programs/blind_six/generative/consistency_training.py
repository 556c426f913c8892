"""Consistency training: a student and its moving average see the same noise at neighbouring
times.
"""

import argparse
import copy

import torch
import torch.nn as nn


class Block(nn.Module):
    def __init__(self, c, time):
        super().__init__()
        self.depth = nn.Conv2d(c, c, 7, padding=3, groups=c)
        self.norm = nn.GroupNorm(1, c)
        self.time = nn.Linear(time, c)
        self.net = nn.Sequential(nn.Conv2d(c, 4 * c, 1), nn.GELU(), nn.Conv2d(4 * c, c, 1))

    def forward(self, x, t):
        return x + self.net(self.norm(self.depth(x)) + self.time(t)[:, :, None, None])


class Net(nn.Module):
    def __init__(self, width, blocks):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(1, 256), nn.SiLU(), nn.Linear(256, 256), nn.SiLU())
        self.first = nn.Conv2d(3, width, 3, padding=1)
        self.a = nn.ModuleList(Block(width, 256) for _ in range(blocks))
        self.down = nn.Conv2d(width, 2 * width, 2, 2)
        self.b = nn.ModuleList(Block(2 * width, 256) for _ in range(blocks))
        self.up = nn.Sequential(nn.Conv2d(2 * width, 4 * width, 1), nn.PixelShuffle(2))
        self.c = nn.ModuleList(Block(width, 256) for _ in range(blocks))
        self.last = nn.Conv2d(width, 3, 3, padding=1)

    def forward(self, x, sigma):
        s = sigma[:, None, None, None]
        skip, out = 0.25 / ((s - 0.002) ** 2 + 0.25), 0.5 * (s - 0.002) / (s**2 + 0.25).sqrt()
        t = self.time(0.25 * sigma.log()[:, None])
        h = self.first(x / (s**2 + 0.25).sqrt())
        for block in self.a:
            h = block(h, t)
        low = self.down(h)
        for block in self.b:
            low = block(low, t)
        h = h + self.up(low)
        for block in self.c:
            h = block(h, t)
        return skip * x + out * self.last(h)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--size", type=int, default=48)
    parser.add_argument("--width", type=int, default=96)
    parser.add_argument("--blocks", type=int, default=3)
    args = parser.parse_args()
    torch.manual_seed(0)
    student = Net(args.width, args.blocks).cuda()
    teacher = copy.deepcopy(student).requires_grad_(False)
    optimizer = torch.optim.RAdam(student.parameters(), lr=1e-4)
    for step in range(4):
        count = 10 + 5 * step
        levels = (
            0.002 ** (1 / 7) + torch.linspace(0, 1, count) * (80 ** (1 / 7) - 0.002 ** (1 / 7))
        ) ** 7
        levels = levels.cuda()
        x = torch.rand(args.batch_size, 3, args.size, args.size, device="cuda") * 2 - 1
        i = torch.randint(0, count - 1, (args.batch_size,), device="cuda")
        noise = torch.randn_like(x)
        high, low = levels[i + 1], levels[i]
        state = torch.cuda.get_rng_state() if torch.cuda.is_available() else None
        guess = student(x + high[:, None, None, None] * noise, high)
        if state is not None:
            torch.cuda.set_rng_state(state)
        with torch.no_grad():
            target = teacher(x + low[:, None, None, None] * noise, low)
        distance = ((guess - target) ** 2 + 0.0003**2).sqrt() - 0.0003
        loss = (distance.mean((1, 2, 3)) / (high - low)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        torch._foreach_lerp_(list(teacher.parameters()), list(student.parameters()), 0.05)
        print(step, loss.item())
    with torch.no_grad():
        z = 80 * torch.randn(args.batch_size, 3, args.size, args.size, device="cuda")
        print(teacher(z, torch.full((args.batch_size,), 80.0, device="cuda")).mean().item())


if __name__ == "__main__":
    main()
