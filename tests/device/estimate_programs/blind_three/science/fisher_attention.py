"""Per-sample gradients of a small transformer by torch.func: influence and Fisher pruning."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.func import functional_call, grad, vmap


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.up, self.down = nn.Linear(dim, 2 * dim), nn.Linear(2 * dim, dim)

    def forward(self, x):
        T, D = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(T, 3, self.heads, -1).permute(1, 2, 0, 3)
        weights = torch.softmax(q @ k.transpose(-1, -2) * (D // self.heads) ** -0.5, dim=-1)
        x = x + self.out((weights @ v).transpose(0, 1).reshape(T, D))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Classifier(nn.Module):
    def __init__(self, words, dim, heads, layers, classes):
        super().__init__()
        self.embed = nn.Embedding(words, dim)
        self.blocks = nn.Sequential(*[Block(dim, heads) for _ in range(layers)])
        self.out = nn.Linear(dim, classes)

    def forward(self, ids):
        return self.out(self.blocks(self.embed(ids)).mean(0))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=192)
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--words", type=int, default=4000)
    parser.add_argument("--dim", type=int, default=256)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--classes", type=int, default=20)
    parser.add_argument("--probes", type=int, default=64)
    parser.add_argument("--batches", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Classifier(args.words, args.dim, 4, args.layers, args.classes).to(device)
    params = {name: p.detach() for name, p in model.named_parameters()}
    trained = {name: p for name, p in params.items() if not name.startswith("embed")}
    frozen = {name: p for name, p in params.items() if name.startswith("embed")}

    def loss(p, ids, label):
        logits = functional_call(model, {**p, **frozen}, (ids,))
        return F.cross_entropy(logits.unsqueeze(0), label.unsqueeze(0))

    def batch(n):
        ids = torch.randint(args.words, (n, args.length), device=device)
        return ids, torch.randint(args.classes, (n,), device=device)

    sample_grads = vmap(grad(loss), in_dims=(None, 0, 0), randomness="different")
    probes = sample_grads(trained, *batch(args.probes))
    fisher = {name: torch.zeros_like(p) for name, p in trained.items()}
    for number in range(args.batches):
        grads = sample_grads(trained, *batch(args.batch_size))
        influence = sum(
            torch.einsum("nf,mf->nm", probes[name].flatten(1), grads[name].flatten(1))
            for name in grads
        )
        for name, g in grads.items():
            fisher[name] += g.square().mean(0) / args.batches
        print(f"batch {number}: largest influence {influence.abs().max().item():.4f}")
    scores = torch.cat([(fisher[n] * p.square()).flatten() for n, p in trained.items()])
    threshold = scores.kthvalue(len(scores) // 2).values
    kept = (scores > threshold).float().mean().item()
    print(f"{kept:.1%} of {len(scores)} weights are kept")


if __name__ == "__main__":
    main()
