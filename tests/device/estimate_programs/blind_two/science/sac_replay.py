"""Soft actor-critic with the replay buffer on the GPU; many simple arms are simulated there too."""

import argparse
import copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class ReplayBuffer:
    def __init__(self, capacity, obs_dim, act_dim, device):
        self.obs = torch.zeros(capacity, obs_dim, device=device)
        self.next_obs = torch.zeros(capacity, obs_dim, device=device)
        self.actions = torch.zeros(capacity, act_dim, device=device)
        self.rewards = torch.zeros(capacity, device=device)
        self.dones = torch.zeros(capacity, dtype=torch.bool, device=device)
        self.capacity, self.position, self.size = capacity, 0, 0

    def add(self, obs, action, reward, next_obs, done):
        n = len(obs)
        where = torch.arange(self.position, self.position + n, device=obs.device) % self.capacity
        self.obs[where], self.next_obs[where] = obs, next_obs
        self.actions[where], self.rewards[where], self.dones[where] = action, reward, done
        self.position = (self.position + n) % self.capacity
        self.size = min(self.capacity, self.size + n)

    def sample(self, batch):
        i = torch.randint(0, self.size, (batch,), device=self.obs.device)
        return self.obs[i], self.actions[i], self.rewards[i], self.next_obs[i], self.dones[i]


class Arms:
    """Chains of joints that should reach a point; the observation is padded with old frames."""

    def __init__(self, envs, joints, frames, device):
        self.envs, self.joints, self.frames, self.device = envs, joints, frames, device
        self.obs_dim, self.act_dim = (2 * joints + 2) * frames, joints
        self.reset()

    def frame(self):
        return torch.cat([self.angle.sin(), self.angle.cos(), self.goal], dim=1)

    def reset(self):
        self.angle = torch.rand(self.envs, self.joints, device=self.device) * 2 * math.pi
        self.goal = torch.rand(self.envs, 2, device=self.device) * 2 - 1
        self.history = [self.frame()] * self.frames
        return torch.cat(self.history, dim=1)

    def step(self, action):
        self.angle = self.angle + 0.1 * action
        total = self.angle.cumsum(1)
        tip = torch.stack([total.cos().mean(1), total.sin().mean(1)], dim=1)
        reward = -(tip - self.goal).norm(dim=1) - 0.01 * action.square().sum(1)
        done = (tip - self.goal).norm(dim=1) < 0.05
        self.goal[done] = torch.rand(int(done.sum()), 2, device=self.device) * 2 - 1
        self.history = [*self.history[1:], self.frame()]
        return torch.cat(self.history, dim=1), reward, done


def mlp(sizes):
    layers = []
    for a, b in zip(sizes[:-2], sizes[1:-1]):
        layers += [nn.Linear(a, b), nn.LayerNorm(b), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(sizes[-2], sizes[-1]))


class Actor(nn.Module):
    def __init__(self, obs, act, hidden):
        super().__init__()
        self.net = mlp([obs, hidden, hidden, 2 * act])

    def forward(self, obs):
        mean, log_std = self.net(obs).chunk(2, dim=-1)
        normal = torch.distributions.Normal(mean, log_std.clamp(-5, 2).exp())
        x = normal.rsample()
        action = torch.tanh(x)
        log_prob = normal.log_prob(x) - torch.log(1 - action.pow(2) + 1e-6)
        return action, log_prob.sum(-1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--envs", type=int, default=2048)
    parser.add_argument("--joints", type=int, default=7)
    parser.add_argument("--frames", type=int, default=8)
    parser.add_argument("--capacity", type=int, default=1_000_000)
    parser.add_argument("--batch-size", type=int, default=16384)
    parser.add_argument("--hidden", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=8)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    env = Arms(args.envs, args.joints, args.frames, device)
    buffer = ReplayBuffer(args.capacity, env.obs_dim, env.act_dim, device)
    actor = Actor(env.obs_dim, env.act_dim, args.hidden).to(device)
    sizes = [env.obs_dim + env.act_dim, args.hidden, args.hidden, 1]
    critics = nn.ModuleList([mlp(sizes), mlp(sizes)]).to(device)
    targets = copy.deepcopy(critics).requires_grad_(False)
    log_alpha = torch.zeros(1, requires_grad=True, device=device)
    actor_opt = torch.optim.Adam(actor.parameters(), lr=3e-4)
    critic_opt = torch.optim.Adam(critics.parameters(), lr=3e-4)
    alpha_opt = torch.optim.Adam([log_alpha], lr=3e-4)
    obs = env.reset()
    for i in range(args.rounds):
        for _ in range(4):
            with torch.no_grad():
                action, _ = actor(obs)
            next_obs, reward, done = env.step(action)
            buffer.add(obs, action, reward, next_obs, done)
            obs = next_obs
        o, a, r, o2, d = buffer.sample(args.batch_size)
        with torch.no_grad():
            a2, logp2 = actor(o2)
            q2 = torch.min(*(q(torch.cat([o2, a2], 1)).squeeze(1) for q in targets))
            y = r + 0.99 * (~d) * (q2 - log_alpha.exp() * logp2)
        q_loss = sum(F.mse_loss(q(torch.cat([o, a], 1)).squeeze(1), y) for q in critics)
        critic_opt.zero_grad()
        q_loss.backward()
        critic_opt.step()
        action, logp = actor(o)
        q = torch.min(*(q(torch.cat([o, action], 1)).squeeze(1) for q in critics))
        actor_loss = (log_alpha.exp().detach() * logp - q).mean()
        actor_opt.zero_grad()
        actor_loss.backward()
        actor_opt.step()
        alpha_loss = -(log_alpha * (logp.detach() - env.act_dim)).mean()
        alpha_opt.zero_grad()
        alpha_loss.backward()
        alpha_opt.step()
        with torch.no_grad():
            for t, p in zip(targets.parameters(), critics.parameters()):
                t.mul_(0.995).add_(p, alpha=0.005)
        print(
            f"{i}: q {q_loss.item():.3f} actor {actor_loss.item():.3f} "
            f"alpha {log_alpha.exp().item():.3f} reward {reward.mean().item():.3f}"
        )


if __name__ == "__main__":
    main()
