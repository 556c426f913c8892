"""PPO on a vector of pendulums that are simulated on the GPU: rollouts, GAE, minibatches."""

import argparse
import math

import torch
from torch import nn
from torch.distributions import Normal


class Pendulums:
    def __init__(self, count, device):
        self.count, self.device = count, device
        self.reset()

    def reset(self):
        self.angle = (torch.rand(self.count, device=self.device) * 2 - 1) * math.pi
        self.speed = (torch.rand(self.count, device=self.device) * 2 - 1) * 8
        self.age = torch.zeros(self.count, device=self.device)
        return self.observe()

    def observe(self):
        return torch.stack([self.angle.cos(), self.angle.sin(), self.speed], dim=-1)

    def step(self, torque):
        torque = torque.squeeze(-1).clamp(-2, 2)
        wrapped = torch.remainder(self.angle + math.pi, 2 * math.pi) - math.pi
        reward = -(wrapped**2 + 0.1 * self.speed**2 + 0.001 * torque**2)
        self.speed = (self.speed + (15 * self.angle.sin() + 3 * torque) * 0.05).clamp(-8, 8)
        self.angle = self.angle + self.speed * 0.05
        self.age += 1
        done = self.age >= 200
        self.angle = torch.where(done, torch.zeros_like(self.angle), self.angle)
        self.age = torch.where(done, torch.zeros_like(self.age), self.age)
        return self.observe(), reward, done.float()


class Agent(nn.Module):
    def __init__(self, observations, actions, width):
        super().__init__()

        def mlp(outputs):
            return nn.Sequential(
                nn.Linear(observations, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(),
                nn.Linear(width, outputs),
            )  # fmt: skip

        self.critic, self.actor = mlp(1), mlp(actions)
        self.log_std = nn.Parameter(torch.zeros(actions))

    def value(self, x):
        return self.critic(x).squeeze(-1)

    def policy(self, x):
        return Normal(self.actor(x), self.log_std.exp())


@torch.no_grad()
def rollout(agent, env, observation, args):
    rows = []
    for _ in range(args.horizon):
        policy = agent.policy(observation)
        action = policy.sample()
        following, reward, done = env.step(action)
        log_p = policy.log_prob(action).sum(-1)
        rows.append((observation, action, log_p, reward, done, agent.value(observation)))
        observation = following
    observations, actions, log_p, rewards, done, values = (torch.stack(x) for x in zip(*rows))
    advantages = torch.zeros_like(rewards)
    last, next_value = 0.0, agent.value(observation)
    for t in reversed(range(args.horizon)):
        delta = rewards[t] + 0.99 * next_value * (1 - done[t]) - values[t]
        last = delta + 0.99 * 0.95 * (1 - done[t]) * last
        advantages[t], next_value = last, values[t]
    flat = [
        x.flatten(0, 1) for x in (observations, actions, log_p, advantages, advantages + values)
    ]
    return flat, observation, rewards.mean().item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--envs", type=int, default=4096)
    parser.add_argument("--horizon", type=int, default=32)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--minibatches", type=int, default=4)
    parser.add_argument("--steps", type=int, default=3)
    args = parser.parse_args()
    torch.manual_seed(1)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    env, agent = Pendulums(args.envs, device), Agent(3, 1, args.width).to(device)
    optimizer = torch.optim.Adam(agent.parameters(), lr=3e-4, eps=1e-5)
    observation = env.reset()
    for step in range(args.steps):
        data, observation, reward = rollout(agent, env, observation, args)
        for _ in range(args.epochs):
            order = torch.randperm(len(data[0]), device=device)
            for part in order.chunk(args.minibatches):
                obs, action, old, advantage, target = (x[part] for x in data)
                policy = agent.policy(obs)
                ratio = (policy.log_prob(action).sum(-1) - old).exp()
                advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
                clipped = torch.max(-advantage * ratio, -advantage * ratio.clamp(0.8, 1.2)).mean()
                value_loss = 0.5 * (agent.value(obs) - target).pow(2).mean()
                loss = clipped + 0.5 * value_loss - 0.01 * policy.entropy().sum(-1).mean()
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
                optimizer.step()
        print(f"step {step} reward {reward:.3f} value loss {value_loss.item():.3f}")


if __name__ == "__main__":
    main()
