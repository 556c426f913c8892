"""TD3 with a replay buffer on the GPU: twin critics, delayed policy, target networks."""

import argparse
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F


def mlp(*sizes, last=None):
    layers = []
    for a, b in zip(sizes, sizes[1:]):
        layers += [nn.Linear(a, b), nn.ReLU()]
    layers.pop()
    return nn.Sequential(*layers, *([last] if last else []))


class Critic(nn.Module):
    def __init__(self, state, action, width):
        super().__init__()
        self.q1 = mlp(state + action, width, width, 1)
        self.q2 = mlp(state + action, width, width, 1)

    def forward(self, state, action):
        both = torch.cat([state, action], 1)
        return self.q1(both), self.q2(both)


class ReplayBuffer:
    def __init__(self, capacity, state, action, device):
        self.state = torch.zeros(capacity, state, device=device)
        self.action = torch.zeros(capacity, action, device=device)
        self.after = torch.zeros(capacity, state, device=device)
        self.reward = torch.zeros(capacity, 1, device=device)
        self.capacity, self.place, self.size = capacity, 0, 0

    def add(self, state, action, after, reward):
        rows = (torch.arange(len(state), device=state.device) + self.place) % self.capacity
        self.state[rows], self.action[rows] = state, action
        self.after[rows], self.reward[rows] = after, reward
        self.place = (self.place + len(state)) % self.capacity
        self.size = min(self.size + len(state), self.capacity)

    def sample(self, count):
        rows = torch.randint(0, self.size, (count,), device=self.state.device)
        return self.state[rows], self.action[rows], self.after[rows], self.reward[rows]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--capacity", type=int, default=500_000)
    parser.add_argument("--state", type=int, default=111)
    parser.add_argument("--action", type=int, default=8)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--envs", type=int, default=256)
    parser.add_argument("--batch-size", type=int, default=8192)
    parser.add_argument("--steps", type=int, default=12)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda")
    actor = mlp(args.state, args.width, args.width, args.action, last=nn.Tanh()).to(device)
    critic = Critic(args.state, args.action, args.width).to(device)
    actor_target, critic_target = copy.deepcopy(actor), copy.deepcopy(critic)
    actor_optimizer = torch.optim.Adam(actor.parameters(), lr=3e-4)
    critic_optimizer = torch.optim.Adam(critic.parameters(), lr=3e-4)
    buffer = ReplayBuffer(args.capacity, args.state, args.action, device)
    dynamics = torch.randn(args.action, args.state, device=device) * 0.1
    state = torch.randn(args.envs, args.state, device=device)
    for step in range(args.steps):
        with torch.no_grad():
            action = (
                actor(state) + 0.1 * torch.randn(args.envs, args.action, device=device)
            ).clamp(-1, 1)
            after = 0.95 * state + action @ dynamics
            buffer.add(state, action, after, -after.square().mean(1, keepdim=True))
            state = after
        s, a, s2, r = buffer.sample(args.batch_size)
        with torch.no_grad():
            noise = (torch.randn_like(a) * 0.2).clamp(-0.5, 0.5)
            a2 = (actor_target(s2) + noise).clamp(-1, 1)
            target = r + 0.99 * torch.min(*critic_target(s2, a2))
        q1, q2 = critic(s, a)
        critic_loss = F.mse_loss(q1, target) + F.mse_loss(q2, target)
        critic_optimizer.zero_grad()
        critic_loss.backward()
        critic_optimizer.step()
        if step % 2 == 1:
            actor_loss = -critic(s, actor(s))[0].mean()
            actor_optimizer.zero_grad()
            actor_loss.backward()
            actor_optimizer.step()
            with torch.no_grad():
                for online, slow in ((critic, critic_target), (actor, actor_target)):
                    for p, q in zip(online.parameters(), slow.parameters()):
                        q.mul_(0.995).add_(0.005 * p)
            print(f"step {step} critic {critic_loss.item():.4f} actor {actor_loss.item():.4f}")


if __name__ == "__main__":
    main()
