"""Reinforcement learning with an ensemble: ten critics by vmap, many updates a step, a replay."""

import argparse
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.func import functional_call, stack_module_state


def mlp(width_in, hidden, width_out):
    return nn.Sequential(
        nn.Linear(width_in, hidden),
        nn.LayerNorm(hidden),
        nn.ReLU(),
        nn.Linear(hidden, hidden),
        nn.LayerNorm(hidden),
        nn.ReLU(),
        nn.Linear(hidden, width_out),
    )


class Replay:
    """Transitions on the GPU; observations are kept in half precision."""

    def __init__(self, capacity, observed, acted, device):
        self.now = torch.empty(capacity, observed, device=device, dtype=torch.float16)
        self.then = torch.empty(capacity, observed, device=device, dtype=torch.float16)
        self.action = torch.empty(capacity, acted, device=device)
        self.reward = torch.empty(capacity, device=device)
        self.size, self.place, self.capacity = 0, 0, capacity

    def add(self, now, action, reward, then):
        index = (self.place + torch.arange(len(now), device=now.device)) % self.capacity
        self.now[index], self.then[index] = now.half(), then.half()
        self.action[index], self.reward[index] = action, reward
        self.place = (self.place + len(now)) % self.capacity
        self.size = min(self.size + len(now), self.capacity)

    def sample(self, n):
        index = torch.randint(self.size, (n,), device=self.now.device)
        now, then = self.now[index].float(), self.then[index].float()
        return now, self.action[index], self.reward[index], then


class Ensemble:
    def __init__(self, n, width_in, hidden, device):
        nets = [mlp(width_in, hidden, 1).to(device) for _ in range(n)]
        self.params, self.buffers = stack_module_state(nets)
        self.shape = copy.deepcopy(nets[0]).to("meta")

    def __call__(self, params, x):
        def one(p, b):
            return functional_call(self.shape, (p, b), (x,)).squeeze(-1)

        return torch.vmap(one)(params, self.buffers)


def act(policy, observation):
    mean, log_std = policy(observation).chunk(2, -1)
    spread = torch.distributions.Normal(mean, log_std.clamp(-5, 2).exp())
    raw = spread.rsample()
    action = raw.tanh()
    log_prob = (spread.log_prob(raw) - torch.log(1 - action.square() + 1e-6)).sum(-1)
    return action, log_prob


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--envs", type=int, default=4096)
    parser.add_argument("--observed", type=int, default=256)
    parser.add_argument("--acted", type=int, default=24)
    parser.add_argument("--capacity", type=int, default=1_500_000)
    parser.add_argument("--batch-size", type=int, default=8192)
    parser.add_argument("--hidden", type=int, default=768)
    parser.add_argument("--critics", type=int, default=10)
    parser.add_argument("--updates", type=int, default=4)
    parser.add_argument("--steps", type=int, default=3)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    policy = mlp(args.observed, args.hidden, 2 * args.acted).to(device)
    critics = Ensemble(args.critics, args.observed + args.acted, args.hidden, device)
    targets = {name: p.detach().clone() for name, p in critics.params.items()}
    learn_policy = torch.optim.Adam(policy.parameters(), lr=3e-4)
    learn_critics = torch.optim.Adam(critics.params.values(), lr=3e-4)
    replay = Replay(args.capacity, args.observed, args.acted, device)
    push = torch.randn(args.acted, args.observed, device=device) * 0.1
    state = torch.randn(args.envs, args.observed, device=device)
    for step in range(args.steps):
        with torch.no_grad():
            action, _ = act(policy, state)
            then = 0.95 * state + action @ push + 0.05 * torch.randn_like(state)
            reward = -then.square().mean(-1)
            replay.add(state, action, reward, then)
            state = then
        for _ in range(args.updates):
            now, action, reward, then = replay.sample(args.batch_size)
            with torch.no_grad():
                next_action, log_prob = act(policy, then)
                values = critics(targets, torch.cat([then, next_action], -1))
                two = torch.randperm(args.critics, device=device)[:2]
                goal = reward + 0.99 * (values[two].amin(0) - 0.2 * log_prob)
            guess = critics(critics.params, torch.cat([now, action], -1))
            loss = F.mse_loss(guess, goal.expand_as(guess))
            learn_critics.zero_grad()
            loss.backward()
            learn_critics.step()
            with torch.no_grad():
                for name, p in critics.params.items():
                    targets[name].lerp_(p, 0.005)
        action, log_prob = act(policy, now)
        value = critics(critics.params, torch.cat([now, action], -1)).mean(0)
        policy_loss = (0.2 * log_prob - value).mean()
        learn_policy.zero_grad()
        policy_loss.backward()
        learn_policy.step()
        print(f"step {step}: critics {loss.item():.4f}, policy {policy_loss.item():.4f}")


if __name__ == "__main__":
    main()
