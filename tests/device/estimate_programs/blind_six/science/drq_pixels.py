"""Control from pixels (DrQ v2): a replay buffer of bytes on the GPU, random shifts, two
critics, soft targets.
"""

import argparse
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F


class Replay:
    def __init__(self, size, pixels, actions, device):
        self.frames = torch.zeros(size, 9, pixels, pixels, dtype=torch.uint8, device=device)
        self.actions = torch.zeros(size, actions, device=device)
        self.rewards = torch.zeros(size, 1, device=device)
        self.size, self.count = size, 0

    def add(self, frame, action, reward):
        i = self.count % self.size
        self.frames[i], self.actions[i], self.rewards[i] = frame, action, reward
        self.count += 1

    def draw(self, batch):
        i = torch.randint(0, min(self.count, self.size) - 1, (batch,), device=self.frames.device)
        return self.frames[i], self.actions[i], self.rewards[i], self.frames[i + 1]


def shift(x, pad=4):
    n, _, h, _ = x.shape
    x = F.pad(x.float(), (pad,) * 4, "replicate")
    eps = 1.0 / (h + 2 * pad)
    line = torch.linspace(-1 + eps, 1 - eps, h + 2 * pad, device=x.device)[:h]
    base = torch.stack(torch.meshgrid(line, line, indexing="xy"), dim=-1)[None].repeat(n, 1, 1, 1)
    move = torch.randint(0, 2 * pad + 1, (n, 1, 1, 2), device=x.device) * 2.0 / (h + 2 * pad)
    return F.grid_sample(x, base + move, padding_mode="zeros", align_corners=False)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        layers = [nn.Conv2d(9, 32, 3, 2), nn.ReLU()]
        for _ in range(3):
            layers += [nn.Conv2d(32, 32, 3), nn.ReLU()]
        self.net = nn.Sequential(*layers)

    def forward(self, x):
        return self.net(x / 255 - 0.5).flatten(1)


def head(n_in, width, n_out):
    return nn.Sequential(
        nn.Linear(n_in, 50),
        nn.LayerNorm(50),
        nn.Tanh(),
        nn.Linear(50, width),
        nn.ReLU(),
        nn.Linear(width, width),
        nn.ReLU(),
        nn.Linear(width, n_out),
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--pixels", type=int, default=84)
    parser.add_argument("--replay", type=int, default=30_000)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--updates", type=int, default=6)
    args = parser.parse_args()
    torch.manual_seed(0)
    replay = Replay(args.replay, args.pixels, 6, "cuda")
    encoder = Encoder().to("cuda")
    with torch.no_grad():
        size = encoder(torch.zeros(1, 9, args.pixels, args.pixels, device="cuda")).shape[1]
    actor = head(size, args.width, 6).to("cuda")
    critics = nn.ModuleList(head(size + 6, args.width, 1) for _ in range(2)).to("cuda")
    targets = copy.deepcopy(critics).requires_grad_(False)
    e_opt = torch.optim.Adam(encoder.parameters(), 1e-4)
    a_opt = torch.optim.Adam(actor.parameters(), 1e-4)
    c_opt = torch.optim.Adam(critics.parameters(), 1e-4)
    for _ in range(20):
        frame = torch.randint(0, 256, (9, args.pixels, args.pixels), dtype=torch.uint8)
        with torch.no_grad():
            action = actor(encoder(frame[None].to("cuda").float())).tanh()[0]
        replay.add(frame, action, torch.randn(()))
    for update in range(args.updates):
        frames, actions, rewards, following = replay.draw(args.batch_size)
        now = encoder(shift(frames))
        with torch.no_grad():
            then = encoder(shift(following))
            plan = actor(then).tanh()
            plan = plan + (torch.randn_like(plan) * 0.2).clamp(-0.3, 0.3)
            q = torch.min(*[t(torch.cat([then, plan], 1)) for t in targets])
            goal = rewards + 0.99 * q
        c_loss = sum(F.mse_loss(c(torch.cat([now, actions], 1)), goal) for c in critics)
        e_opt.zero_grad(set_to_none=True)
        c_opt.zero_grad(set_to_none=True)
        c_loss.backward()
        c_opt.step()
        e_opt.step()
        still = now.detach()
        q = torch.min(*[c(torch.cat([still, actor(still).tanh()], 1)) for c in critics])
        a_opt.zero_grad(set_to_none=True)
        (-q.mean()).backward()
        a_opt.step()
        with torch.no_grad():
            for t, p in zip(targets.parameters(), critics.parameters()):
                t.mul_(0.99).add_(p, alpha=0.01)
        print(update, c_loss.item())


if __name__ == "__main__":
    main()
