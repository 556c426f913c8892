"""Evolution strategies: a population of policies moves carts simulated on the GPU."""

import argparse

import torch
from torch.func import vmap


def policy(flat, observation, sizes):
    h, at = observation, 0
    for a, b in zip(sizes, sizes[1:]):
        matrix = flat[at : at + a * b].view(a, b)
        bias = flat[at + a * b : at + a * b + b]
        at += a * b + b
        h = torch.tanh(h @ matrix + bias)
    return h


def simulate(population, args, sizes, device):
    """The mean reward of every policy over its carts."""
    state = torch.randn(args.carts, sizes[0], device=device).expand(len(population), -1, -1) * 0.1
    total = torch.zeros(len(population), device=device)
    act = vmap(policy, in_dims=(0, 0, None))
    mixing = torch.randn(sizes[-1], sizes[0], device=device) * 0.1
    for _ in range(args.horizon):
        action = act(population, state, sizes)
        state = 0.98 * state + action @ mixing + 0.01 * torch.sin(3 * state.roll(1, -1))
        total += torch.exp(-state.square().mean(-1)).mean(-1)
    return total / args.horizon


def ranks(values):
    order = values.argsort().argsort().float()
    return order / (len(values) - 1) - 0.5


@torch.no_grad()
def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--population", type=int, default=1024)
    parser.add_argument("--carts", type=int, default=32)
    parser.add_argument("--inputs", type=int, default=64)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--actions", type=int, default=16)
    parser.add_argument("--horizon", type=int, default=30)
    parser.add_argument("--generations", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(2)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    sizes = (args.inputs, args.hidden, args.hidden, args.actions)
    count = sum(a * b + b for a, b in zip(sizes, sizes[1:]))
    centre = torch.randn(count, device=device) * 0.05
    optimizer = torch.optim.Adam([centre], lr=0.02)
    for generation in range(args.generations):
        noise = torch.randn(args.population // 2, count, device=device)
        noise = torch.cat([noise, -noise])
        rewards = simulate(centre + 0.1 * noise, args, sizes, device)
        weights = ranks(rewards)
        centre.grad = -(weights @ noise) / (args.population * 0.1)
        optimizer.step()
        best = rewards.argmax().item()
        elite = centre + 0.1 * noise[best]
        again = simulate(elite.unsqueeze(0), args, sizes, device).item()
        print(f"generation {generation}: mean {rewards.mean().item():.4f} best {again:.4f}")


if __name__ == "__main__":
    main()
