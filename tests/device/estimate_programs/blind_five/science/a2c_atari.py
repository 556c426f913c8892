"""Advantage actor-critic on stacked frames of many environments, with a replayed random game."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributions import Categorical


class Policy(nn.Module):
    def __init__(self, actions, hidden):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(4, 32, 8, stride=4),
            nn.ReLU(),
            nn.Conv2d(32, 64, 4, stride=2),
            nn.ReLU(),
            nn.Conv2d(64, 64, 3, stride=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(64 * 7 * 7, hidden),
            nn.ReLU(),
        )
        self.actor, self.critic = nn.Linear(hidden, actions), nn.Linear(hidden, 1)

    def forward(self, frames):
        h = self.body(frames.float() / 255)
        return Categorical(logits=self.actor(h)), self.critic(h).squeeze(-1)


class Games:
    """Frames and rewards at random, as uint8 on the host."""

    def __init__(self, count, seed=0):
        self.g = torch.Generator().manual_seed(seed)
        self.count = count
        self.frames = torch.randint(0, 256, (count, 4, 84, 84), dtype=torch.uint8, generator=self.g)

    def step(self, actions):
        fresh = torch.randint(0, 256, (self.count, 1, 84, 84), dtype=torch.uint8, generator=self.g)
        self.frames = torch.cat((self.frames[:, 1:], fresh), dim=1)
        reward = torch.randn(self.count, generator=self.g).sign()
        done = torch.rand(self.count, generator=self.g) < 0.02
        return self.frames, reward, done


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--games", type=int, default=128)
    p.add_argument("--horizon", type=int, default=20)
    p.add_argument("--hidden", type=int, default=512)
    p.add_argument("--updates", type=int, default=4)
    p.add_argument("--gamma", type=float, default=0.99)
    args = p.parse_args()
    torch.manual_seed(1)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    policy = Policy(18, args.hidden).to(device)
    optimizer = torch.optim.RMSprop(policy.parameters(), lr=7e-4, alpha=0.99, eps=1e-5)
    games = Games(args.games)
    frames = games.frames.to(device)
    for update in range(args.updates):
        log_probs, values, rewards, masks, entropies = [], [], [], [], []
        for _ in range(args.horizon):
            dist, value = policy(frames)
            action = dist.sample()
            frames, reward, done = games.step(action.cpu())
            frames = frames.to(device)
            log_probs.append(dist.log_prob(action))
            entropies.append(dist.entropy())
            values.append(value)
            rewards.append(reward.to(device))
            masks.append(1 - done.float().to(device))
        with torch.no_grad():
            _, future = policy(frames)
        returns = []
        for reward, mask in zip(reversed(rewards), reversed(masks)):
            future = reward + args.gamma * mask * future
            returns.insert(0, future)
        returns, values = torch.stack(returns), torch.stack(values)
        advantage = returns - values.detach()
        loss = -(torch.stack(log_probs) * advantage).mean() + 0.5 * F.mse_loss(values, returns)
        loss = loss - 0.01 * torch.stack(entropies).mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
        optimizer.step()
        print(update, loss.item(), returns.mean().item())


if __name__ == "__main__":
    main()
