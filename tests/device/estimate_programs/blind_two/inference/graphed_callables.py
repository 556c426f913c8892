"""Trains a network in parts graphed by make_graphed_callables; the choice of head stays eager."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


class Mixer(nn.Module):
    def __init__(self, tokens, dim):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.token_mix = nn.Sequential(
            nn.Linear(tokens, 2 * tokens), nn.GELU(), nn.Linear(2 * tokens, tokens)
        )
        self.channel_mix = nn.Sequential(
            nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim)
        )

    def forward(self, x):
        x = x + self.token_mix(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channel_mix(self.norm2(x))


class Trunk(nn.Module):
    def __init__(self, patch, tokens, dim, depth):
        super().__init__()
        self.patch = nn.Conv2d(3, dim, patch, stride=patch)
        self.blocks = nn.Sequential(*[Mixer(tokens, dim) for _ in range(depth)])
        self.norm = nn.LayerNorm(dim)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        return self.norm(self.blocks(x)).mean(1)


class Head(nn.Module):
    def __init__(self, dim, classes):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, classes))

    def forward(self, x):
        return self.net(x)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--patch", type=int, default=8)
    parser.add_argument("--dim", type=int, default=384)
    parser.add_argument("--depth", type=int, default=8)
    parser.add_argument("--classes", type=int, default=100)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--eager", action="store_true")
    args = parser.parse_args()

    torch.manual_seed(0)
    device = torch.device("cuda")
    tokens = (args.size // args.patch) ** 2
    trunk = Trunk(args.patch, tokens, args.dim, args.depth).to(device)
    heads = nn.ModuleList(Head(args.dim, args.classes) for _ in range(2)).to(device)
    params = list(trunk.parameters()) + list(heads.parameters())
    optimizer = torch.optim.SGD(params, lr=0.05, momentum=0.9)

    x = torch.randn(args.batch_size, 3, args.size, args.size, device=device)
    h = torch.randn(args.batch_size, args.dim, device=device, requires_grad=True)
    run_trunk, run_heads = trunk, list(heads)
    if not args.eager:
        run_trunk = torch.cuda.make_graphed_callables(trunk, (x,))
        first = torch.cuda.make_graphed_callables(heads[0], (h,))
        second = torch.cuda.make_graphed_callables(heads[1], (h,))
        run_heads = [first, second]

    data = [torch.randn_like(x) for _ in range(2)]
    labels = [torch.randint(0, args.classes, (args.batch_size,), device=device) for _ in range(2)]
    for step in range(args.steps):
        optimizer.zero_grad(set_to_none=True)
        features = run_trunk(data[step % 2])
        # Which head is used depends on the features.
        which = int(features.detach().mean().item() > 0)
        logits = run_heads[which](features)
        loss = F.cross_entropy(logits, labels[step % 2])
        loss.backward()
        nn.utils.clip_grad_norm_(params, 5.0)
        optimizer.step()
        print(f"step {step} head {which} loss {loss.item():.4f}")
    torch.cuda.synchronize()
    print(f"peak {torch.cuda.max_memory_allocated() / 2**20:.0f} MiB")


if __name__ == "__main__":
    main()
