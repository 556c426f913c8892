"""A world model with a recurrent state; actor and critic learn inside imagined futures."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributions import Independent, Normal, OneHotCategoricalStraightThrough, kl_divergence


def mlp(*sizes):
    layers = []
    for a, b in zip(sizes, sizes[1:]):
        layers += [nn.Linear(a, b), nn.LayerNorm(b), nn.SiLU()]
    return nn.Sequential(*layers[:-2])


class World(nn.Module):
    def __init__(self, base, memory, groups, actions):
        super().__init__()
        self.groups = groups
        code = groups * groups
        layers, inputs = [], 3
        for i in range(4):
            layers += [nn.Conv2d(inputs, base * 2**i, 4, stride=2, padding=1), nn.SiLU()]
            inputs = base * 2**i
        self.encoder = nn.Sequential(*layers, nn.Flatten())
        self.cell = nn.GRUCell(memory, memory)
        self.inputs = mlp(code + actions, memory)
        self.prior = mlp(memory, memory, code)
        self.posterior = mlp(memory + inputs * 16, memory, code)
        self.widen = nn.Linear(memory + code, inputs * 16)
        layers = []
        for i in reversed(range(4)):
            outputs = base * 2 ** (i - 1) if i else 3
            layers += [nn.ConvTranspose2d(inputs, outputs, 4, stride=2, padding=1), nn.SiLU()]
            inputs = outputs
        self.decoder = nn.Sequential(*layers[:-1])
        self.reward = mlp(memory + code, memory, 1)

    def distribution(self, logits):
        logits = logits.view(len(logits), self.groups, self.groups)
        probs = 0.99 * logits.softmax(-1) + 0.01 / self.groups
        return Independent(OneHotCategoricalStraightThrough(probs=probs), 1)

    def advance(self, code, action, memory):
        memory = self.cell(self.inputs(torch.cat([code, action], -1)), memory)
        return memory, self.distribution(self.prior(memory))

    def decode(self, state):
        h = self.widen(state)
        return self.decoder(h.view(len(h), -1, 4, 4))


def observe(world, images, actions, memory_size):
    B, T = images.shape[:2]
    seen = world.encoder(images.flatten(0, 1)).view(B, T, -1)
    memory = images.new_zeros(B, memory_size)
    code = images.new_zeros(B, world.groups**2)
    states, gap = [], 0.0
    for t in range(T):
        memory, prior = world.advance(code, actions[:, t], memory)
        after = world.distribution(world.posterior(torch.cat([memory, seen[:, t]], -1)))
        code = after.rsample().flatten(1)
        states.append(torch.cat([memory, code], -1))
        gap = gap + kl_divergence(after, prior).clamp(min=1.0).mean() / T
    return torch.stack(states, 1), gap


def imagine(world, actor, state, horizon, memory_size):
    memory, code = state.split([memory_size, state.size(-1) - memory_size], -1)
    states = [state]
    for _ in range(horizon):
        mean, spread = actor(states[-1]).chunk(2, -1)
        action = torch.tanh(Normal(mean, F.softplus(spread) + 0.1).rsample())
        memory, prior = world.advance(code, action, memory)
        code = prior.rsample().flatten(1)
        states.append(torch.cat([memory, code], -1))
    return torch.stack(states)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--length", type=int, default=32)
    parser.add_argument("--horizon", type=int, default=15)
    parser.add_argument("--base", type=int, default=48)
    parser.add_argument("--memory", type=int, default=512)
    parser.add_argument("--groups", type=int, default=32)
    parser.add_argument("--actions", type=int, default=6)
    parser.add_argument("--steps", type=int, default=3)
    args = parser.parse_args()
    torch.manual_seed(7)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    world = World(args.base, args.memory, args.groups, args.actions).to(device)
    width = args.memory + args.groups**2
    actor = mlp(width, args.memory, 2 * args.actions).to(device)
    critic = mlp(width, args.memory, 1).to(device)
    optimizers = [
        torch.optim.Adam(module.parameters(), lr=lr, eps=1e-5)
        for module, lr in ((world, 1e-4), (actor, 8e-5), (critic, 8e-5))
    ]
    for step in range(args.steps):
        images = torch.rand(args.batch_size, args.length, 3, 64, 64, device=device) - 0.5
        actions = torch.rand(args.batch_size, args.length, args.actions, device=device) * 2 - 1
        rewards = torch.rand(args.batch_size, args.length, device=device)
        states, gap = observe(world, images, actions, args.memory)
        flat = states.flatten(0, 1)
        loss = F.mse_loss(world.decode(flat), images.flatten(0, 1), reduction="sum") / len(flat)
        loss = loss + F.mse_loss(world.reward(flat).view_as(rewards), rewards) + gap
        optimizers[0].zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(world.parameters(), 100.0)
        optimizers[0].step()

        world.requires_grad_(False)
        dreams = imagine(world, actor, flat.detach(), args.horizon, args.memory)
        gains, values = world.reward(dreams).squeeze(-1), critic(dreams).squeeze(-1)
        target = [values[-1]]
        for t in reversed(range(args.horizon)):
            target.append(gains[t] + 0.99 * (0.05 * values[t + 1] + 0.95 * target[-1]))
        target = torch.stack(target[:0:-1])
        optimizers[1].zero_grad()
        (-target.mean()).backward()
        optimizers[1].step()
        optimizers[2].zero_grad()
        guess = critic(dreams[:-1].detach()).squeeze(-1)
        F.smooth_l1_loss(guess, target.detach()).backward()
        optimizers[2].step()
        world.requires_grad_(True)
        print(f"step {step}: world {loss.item():.2f} dreams {target.mean().item():.4f}")


if __name__ == "__main__":
    main()
