"""A decoder that alternates gated short convolutions and grouped-query attention; each block is
compiled on its own, the rest of the step stays eager.
"""

import argparse
import math

import torch
import torch.nn.functional as F
from torch import nn


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x):
        scale = torch.rsqrt(x.float().square().mean(-1, keepdim=True) + self.eps)
        return (x.float() * scale).type_as(x) * self.weight.type_as(x)


class GatedConv(nn.Module):
    def __init__(self, dim, kernel=4):
        super().__init__()
        self.inputs = nn.Linear(dim, 3 * dim, bias=False)
        self.conv = nn.Conv1d(dim, dim, kernel, groups=dim, padding=kernel - 1)
        self.out = nn.Linear(dim, dim, bias=False)

    def forward(self, x):
        length = x.shape[1]
        before, after, value = self.inputs(x).chunk(3, dim=-1)
        mixed = self.conv((before * value).transpose(1, 2))[..., :length].transpose(1, 2)
        return self.out(after * mixed)


class GroupedAttention(nn.Module):
    def __init__(self, dim, heads, groups):
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, dim // heads
        self.q = nn.Linear(dim, dim, bias=False)
        self.kv = nn.Linear(dim, 2 * groups * self.size, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)
        self.q_norm, self.k_norm = RMSNorm(self.size), RMSNorm(self.size)

    def forward(self, x):
        B, T, C = x.shape
        q = self.q(x).view(B, T, self.heads, self.size).transpose(1, 2)
        k, v = self.kv(x).view(B, T, 2, self.groups, self.size).permute(2, 0, 3, 1, 4)
        q, k = self.q_norm(q), self.k_norm(k)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.out(y.transpose(1, 2).reshape(B, T, C))


class Block(nn.Module):
    def __init__(self, dim, heads, groups, attention):
        super().__init__()
        self.mix_norm, self.mlp_norm = RMSNorm(dim), RMSNorm(dim)
        self.mix = GroupedAttention(dim, heads, groups) if attention else GatedConv(dim)
        self.gate_up = nn.Linear(dim, 6 * dim, bias=False)
        self.down = nn.Linear(3 * dim, dim, bias=False)

    def forward(self, x):
        x = x + self.mix(self.mix_norm(x))
        gate, up = self.gate_up(self.mlp_norm(x)).chunk(2, dim=-1)
        return x + self.down(F.silu(gate) * up)


class Hybrid(nn.Module):
    def __init__(self, vocab, dim, depth, heads, groups):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.blocks = nn.ModuleList(
            Block(dim, heads, groups, attention=i % 3 == 2) for i in range(depth)
        )
        self.norm = RMSNorm(dim)
        self.head = nn.Linear(dim, vocab, bias=False)
        for name, p in self.named_parameters():
            if p.ndim == 2:
                nn.init.normal_(p, std=0.02)
            if name.endswith(("down.weight", "out.weight")):
                nn.init.normal_(p, std=0.02 / math.sqrt(2 * depth))

    def forward(self, ids, targets):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--batch-size", type=int, default=12)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--dim", type=int, default=1024)
    parser.add_argument("--depth", type=int, default=12)
    parser.add_argument("--heads", type=int, default=16)
    parser.add_argument("--groups", type=int, default=4)
    parser.add_argument("--vocab", type=int, default=32768)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--eager", action="store_true")
    args = parser.parse_args()

    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    model = Hybrid(args.vocab, args.dim, args.depth, args.heads, args.groups).to(args.device)
    if not args.eager:
        for block in model.blocks:
            block.compile()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1)
    generator = torch.Generator().manual_seed(0)
    for step in range(args.steps):
        shape = (args.batch_size, args.length + 1)
        tokens = torch.randint(0, args.vocab, shape, generator=generator).to(args.device)
        with torch.autocast(args.device, dtype=torch.bfloat16):
            loss = model(tokens[:, :-1], tokens[:, 1:])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        print(f"step {step} loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
