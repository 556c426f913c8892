"""PPO on many small worlds that are simulated on the GPU and seen as pixels: rollouts, advantages,
several epochs of minibatches.
"""

import argparse

import torch
import torch.nn as nn
from torch.distributions import Categorical


class GridWorld:
    """A dot moves on a grid towards a goal; an observation is two planes of the grid."""

    def __init__(self, count, size, device):
        self.count, self.size, self.device = count, size, device
        self.at = torch.randint(0, size, (count, 2), device=device)
        self.goal = torch.randint(0, size, (count, 2), device=device)
        self.moves = torch.tensor([[0, 1], [1, 0], [0, -1], [-1, 0]], device=device)

    def observe(self):
        planes = torch.zeros(self.count, 2, self.size, self.size, device=self.device)
        rows = torch.arange(self.count, device=self.device)
        planes[rows, 0, self.at[:, 0], self.at[:, 1]] = 1
        planes[rows, 1, self.goal[:, 0], self.goal[:, 1]] = 1
        return planes

    def step(self, action):
        self.at = (self.at + self.moves[action]).clamp(0, self.size - 1)
        done = (self.at == self.goal).all(1)
        fresh = torch.randint(0, self.size, (self.count, 2), device=self.device)
        self.goal = torch.where(done[:, None], fresh, self.goal)
        return self.observe(), done.float() - 0.01, done.float()


class Agent(nn.Module):
    def __init__(self, size, width, actions=4):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(2, width, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(width * (size // 2) ** 2, 512),
            nn.ReLU(),
        )
        self.actor, self.critic = nn.Linear(512, actions), nn.Linear(512, 1)

    def forward(self, x):
        h = self.body(x)
        return Categorical(logits=self.actor(h)), self.critic(h).squeeze(-1)


@torch.no_grad()
def rollout(world, agent, obs, steps):
    kept = {name: [] for name in ("obs", "action", "logp", "value", "reward", "done")}
    for _ in range(steps):
        policy, value = agent(obs)
        action = policy.sample()
        after, reward, done = world.step(action)
        row = (obs, action, policy.log_prob(action), value, reward, done)
        for name, part in zip(kept, row):
            kept[name].append(part)
        obs = after
    return {name: torch.stack(parts) for name, parts in kept.items()}, obs


@torch.no_grad()
def advantages(data, last, gamma=0.99, lam=0.95):
    out, running = torch.zeros_like(data["reward"]), 0.0
    following = last
    for t in reversed(range(len(out))):
        alive = 1 - data["done"][t]
        delta = data["reward"][t] + gamma * following * alive - data["value"][t]
        running = delta + gamma * lam * alive * running
        out[t] = running
        following = data["value"][t]
    return out


def update(agent, optimizer, data, gain, args):
    flat = {name: part.flatten(0, 1) for name, part in data.items()}
    gain, target = gain.flatten(), (gain + data["value"]).flatten()
    for _ in range(args.epochs):
        for rows in torch.randperm(len(gain), device=gain.device).chunk(args.minibatches):
            policy, value = agent(flat["obs"][rows])
            ratio = (policy.log_prob(flat["action"][rows]) - flat["logp"][rows]).exp()
            a = gain[rows]
            a = (a - a.mean()) / (a.std() + 1e-8)
            loss = -torch.min(ratio * a, ratio.clamp(0.9, 1.1) * a).mean()
            loss = loss + 0.5 * (value - target[rows]).square().mean()
            loss = loss - 0.01 * policy.entropy().mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            optimizer.step()
    return loss.item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--envs", type=int, default=512)
    parser.add_argument("--horizon", type=int, default=64)
    parser.add_argument("--size", type=int, default=32)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--minibatches", type=int, default=8)
    parser.add_argument("--updates", type=int, default=3)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda")
    world = GridWorld(args.envs, args.size, device)
    agent = Agent(args.size, args.width).to(device)
    optimizer = torch.optim.Adam(agent.parameters(), lr=2.5e-4, eps=1e-5)
    obs = world.observe()
    for i in range(args.updates):
        data, obs = rollout(world, agent, obs, args.horizon)
        with torch.no_grad():
            last = agent(obs)[1]
        loss = update(agent, optimizer, data, advantages(data, last), args)
        print(f"update {i} reward {data['reward'].mean().item():.4f} loss {loss:.4f}")


if __name__ == "__main__":
    main()
