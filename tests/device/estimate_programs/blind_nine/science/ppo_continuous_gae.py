"""PPO for continuous actions: many simulated walkers on the GPU, GAE, clipped updates."""

import argparse

import torch
import torch.nn as nn
from torch.distributions import Normal


def layer(inputs, outputs, std=2**0.5):
    linear = nn.Linear(inputs, outputs)
    nn.init.orthogonal_(linear.weight, std)
    nn.init.zeros_(linear.bias)
    return linear


class Agent(nn.Module):
    def __init__(self, state, action, width):
        super().__init__()
        self.critic = nn.Sequential(
            layer(state, width), nn.Tanh(), layer(width, width), nn.Tanh(), layer(width, 1, 1.0)
        )
        self.actor = nn.Sequential(
            layer(state, width),
            nn.Tanh(),
            layer(width, width),
            nn.Tanh(),
            layer(width, action, 0.01),
        )
        self.log_std = nn.Parameter(torch.zeros(1, action))

    def act(self, x, action=None):
        mean = self.actor(x)
        dist = Normal(mean, self.log_std.expand_as(mean).exp())
        action = dist.sample() if action is None else action
        return action, dist.log_prob(action).sum(1), dist.entropy().sum(1), self.critic(x)[:, 0]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--envs", type=int, default=4096)
    parser.add_argument("--horizon", type=int, default=32)
    parser.add_argument("--state", type=int, default=60)
    parser.add_argument("--action", type=int, default=8)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--iterations", type=int, default=3)
    args = parser.parse_args()
    torch.manual_seed(1)
    device = torch.device("cuda")
    agent = Agent(args.state, args.action, args.width).to(device)
    optimizer = torch.optim.Adam(agent.parameters(), lr=3e-4, eps=1e-5)
    push = torch.randn(args.action, args.state, device=device) * 0.1
    shape = (args.horizon, args.envs)
    states = torch.zeros(*shape, args.state, device=device)
    actions = torch.zeros(*shape, args.action, device=device)
    logps, rewards, values = (torch.zeros(shape, device=device) for _ in range(3))
    state = torch.randn(args.envs, args.state, device=device)
    for iteration in range(args.iterations):
        for t in range(args.horizon):
            states[t] = state
            with torch.no_grad():
                actions[t], logps[t], _, values[t] = agent.act(state)
            state = torch.tanh(state + actions[t] @ push + 0.01 * torch.randn_like(state))
            rewards[t] = -state.square().mean(1)
        with torch.no_grad():
            following, running = agent.critic(state)[:, 0], 0.0
            advantages = torch.zeros_like(rewards)
            for t in reversed(range(args.horizon)):
                delta = rewards[t] + 0.99 * following - values[t]
                running = delta + 0.99 * 0.95 * running
                advantages[t], following = running, values[t]
            returns = advantages + values
        flat = [x.flatten(0, 1) for x in (states, actions, logps, advantages, returns)]
        for _ in range(2):
            for rows in torch.randperm(args.envs * args.horizon, device=device).chunk(4):
                s, a, old, advantage, goal = (x[rows] for x in flat)
                _, logp, entropy, value = agent.act(s, a)
                ratio = (logp - old).exp()
                advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
                clipped = ratio.clamp(0.8, 1.2) * advantage
                loss = -torch.min(ratio * advantage, clipped).mean() - 0.01 * entropy.mean()
                loss = loss + 0.5 * (value - goal).square().mean()
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
                optimizer.step()
        print(iteration, loss.item(), rewards.mean().item())


if __name__ == "__main__":
    main()
