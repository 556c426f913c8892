"""PPO with thousands of simulated two-joint arms on the card: rollouts stay in GPU memory, the
critic sees more than the actor, and the step size follows the divergence of the policy.
"""

import argparse

import torch
import torch.nn as nn
from torch.distributions import Normal


class Arms:
    """Two-link arms that must bring their tip to a goal; all of them step at once."""

    def __init__(self, count, horizon, device):
        self.count, self.horizon, self.device = count, horizon, device
        self.angles = torch.zeros(count, 2, device=device)
        self.speeds = torch.zeros(count, 2, device=device)
        self.goals = torch.zeros(count, 2, device=device)
        self.age = torch.randint(0, horizon, (count,), device=device)
        self.reset(torch.ones(count, dtype=torch.bool, device=device))

    def reset(self, mask):
        n = int(mask.sum())
        self.angles[mask] = (torch.rand(n, 2, device=self.device) - 0.5) * 3
        self.speeds[mask] = 0.0
        self.goals[mask] = (torch.rand(n, 2, device=self.device) - 0.5) * 2.4
        self.age[mask] = 0

    def tip(self):
        first, both = self.angles[:, 0], self.angles.sum(dim=1)
        return torch.stack([first.cos() + both.cos(), first.sin() + both.sin()], dim=-1)

    def observe(self):
        trig = torch.cat([self.angles.sin(), self.angles.cos()], dim=-1)
        public = torch.cat([trig, self.speeds, self.goals], dim=-1)
        private = torch.cat([public, self.tip(), self.tip() - self.goals], dim=-1)
        return public, private

    def step(self, torque):
        torque = torque.clamp(-1, 1)
        self.speeds = (0.95 * self.speeds + 0.3 * torque).clamp(-4, 4)
        self.angles = self.angles + 0.1 * self.speeds
        self.age += 1
        distance = (self.tip() - self.goals).norm(dim=-1)
        reward = torch.exp(-2 * distance) - 0.01 * torque.pow(2).sum(dim=-1)
        done = self.age >= self.horizon
        self.reset(done)
        return *self.observe(), reward, done


def network(c_in, hidden, c_out, gain):
    layers = []
    for c in hidden:
        linear = nn.Linear(c_in, c)
        nn.init.orthogonal_(linear.weight, 2**0.5)
        layers += [linear, nn.ELU()]
        c_in = c
    last = nn.Linear(c_in, c_out)
    nn.init.orthogonal_(last.weight, gain)
    return nn.Sequential(*layers, last)


class ActorCritic(nn.Module):
    def __init__(self, public, private, actions, hidden):
        super().__init__()
        self.actor = network(public, hidden, actions, 0.01)
        self.critic = network(private, hidden, 1, 1.0)
        self.log_std = nn.Parameter(torch.full((actions,), -0.5))

    def policy(self, public):
        return Normal(self.actor(public), self.log_std.exp())

    def value(self, private):
        return self.critic(private).squeeze(-1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--num-envs", type=int, default=16384)
    parser.add_argument("--num-steps", type=int, default=32)
    parser.add_argument("--minibatches", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--updates", type=int, default=3)
    parser.add_argument("--hidden", type=int, nargs="+", default=[1024, 512, 256])
    parser.add_argument("--horizon", type=int, default=100)
    parser.add_argument("--gamma", type=float, default=0.98)
    parser.add_argument("--lam", type=float, default=0.95)
    parser.add_argument("--clip", type=float, default=0.2)
    parser.add_argument("--target-kl", type=float, default=0.01)
    args = parser.parse_args()

    torch.manual_seed(0)
    device = torch.device("cuda")
    envs = Arms(args.num_envs, args.horizon, device)
    public, private = envs.observe()
    agent = ActorCritic(public.shape[1], private.shape[1], 2, args.hidden).to(device)
    lr = 3e-4
    optimizer = torch.optim.Adam(agent.parameters(), lr=lr, eps=1e-5)

    shape = (args.num_steps, args.num_envs)
    store = {
        "public": torch.zeros(*shape, public.shape[1], device=device),
        "private": torch.zeros(*shape, private.shape[1], device=device),
        "actions": torch.zeros(*shape, 2, device=device),
        "means": torch.zeros(*shape, 2, device=device),
        "log_probs": torch.zeros(shape, device=device),
        "rewards": torch.zeros(shape, device=device),
        "dones": torch.zeros(shape, device=device),
        "values": torch.zeros(shape, device=device),
    }

    for update in range(args.updates):
        with torch.no_grad():
            old_std = agent.log_std.exp().clone()
            for t in range(args.num_steps):
                dist = agent.policy(public)
                action = dist.sample()
                store["public"][t], store["private"][t] = public, private
                store["actions"][t], store["means"][t] = action, dist.mean
                store["log_probs"][t] = dist.log_prob(action).sum(-1)
                store["values"][t] = agent.value(private)
                public, private, reward, done = envs.step(action)
                store["rewards"][t], store["dones"][t] = reward, done.float()
            advantages = torch.zeros(shape, device=device)
            following, running = agent.value(private), 0.0
            for t in reversed(range(args.num_steps)):
                alive = 1.0 - store["dones"][t]
                delta = store["rewards"][t] + args.gamma * alive * following - store["values"][t]
                running = delta + args.gamma * args.lam * alive * running
                advantages[t] = running
                following = store["values"][t]
            returns = (advantages + store["values"]).flatten()
            advantages = advantages.flatten()
            advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        flat = {name: value.flatten(0, 1) for name, value in store.items()}

        for _ in range(args.epochs):
            order = torch.randperm(args.num_steps * args.num_envs, device=device)
            for index in order.chunk(args.minibatches):
                dist = agent.policy(flat["public"][index])
                log_prob = dist.log_prob(flat["actions"][index]).sum(-1)
                ratio = (log_prob - flat["log_probs"][index]).exp()
                advantage = advantages[index]
                clipped = ratio.clamp(1 - args.clip, 1 + args.clip)
                policy_loss = -torch.min(ratio * advantage, clipped * advantage).mean()
                value = agent.value(flat["private"][index])
                old_value = flat["values"][index]
                near = old_value + (value - old_value).clamp(-args.clip, args.clip)
                target = returns[index]
                value_loss = torch.max((value - target) ** 2, (near - target) ** 2).mean()
                entropy = dist.entropy().sum(-1).mean()
                loss = policy_loss + value_loss - 0.002 * entropy
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), 1.0)
                optimizer.step()
                with torch.no_grad():
                    old = Normal(flat["means"][index], old_std)
                    kl = torch.distributions.kl_divergence(old, dist).sum(-1).mean().item()
                if kl > 2 * args.target_kl:
                    lr = max(1e-5, lr / 1.5)
                elif 0 < kl < args.target_kl / 2:
                    lr = min(1e-3, lr * 1.5)
                for group in optimizer.param_groups:
                    group["lr"] = lr
        print(
            f"update {update} reward {store['rewards'].mean().item():.4f} "
            f"loss {loss.item():.4f} kl {kl:.5f} lr {lr:.2e}"
        )


if __name__ == "__main__":
    main()
