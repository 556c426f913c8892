"""A decoder in the style of Llama from scratch: rotary places, SwiGLU, grouped queries, autocast,
accumulation, and the loss estimated on held-out text between updates.
"""

import argparse
import math
from dataclasses import dataclass

import torch
import torch.nn as nn
from torch.nn import functional as F


@dataclass
class Config:
    vocab: int
    block: int
    dim: int
    layers: int
    heads: int
    kv_heads: int


def rotate(x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1).type_as(x)


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c, self.size = c, c.dim // c.heads
        self.q = nn.Linear(c.dim, c.dim, bias=False)
        self.kv = nn.Linear(c.dim, 2 * c.kv_heads * self.size, bias=False)
        self.o = nn.Linear(c.dim, c.dim, bias=False)

    def forward(self, x, cos, sin):
        B, T, _ = x.shape
        q = self.q(x).view(B, T, self.c.heads, self.size).transpose(1, 2)
        k, v = self.kv(x).view(B, T, 2 * self.c.kv_heads, self.size).transpose(1, 2).chunk(2, 1)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        groups = self.c.heads // self.c.kv_heads
        k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(y.transpose(1, 2).reshape(B, T, -1))


class Layer(nn.Module):
    def __init__(self, c):
        super().__init__()
        hidden = 64 * math.ceil(c.dim * 8 / 3 / 64)
        self.n1, self.n2 = nn.RMSNorm(c.dim), nn.RMSNorm(c.dim)
        self.attention = Attention(c)
        self.w1 = nn.Linear(c.dim, hidden, bias=False)
        self.w3 = nn.Linear(c.dim, hidden, bias=False)
        self.w2 = nn.Linear(hidden, c.dim, bias=False)

    def forward(self, x, cos, sin):
        x = x + self.attention(self.n1(x), cos, sin)
        h = self.n2(x)
        return x + self.w2(F.silu(self.w1(h)) * self.w3(h))


class Model(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.embed = nn.Embedding(c.vocab, c.dim)
        self.layers = nn.ModuleList([Layer(c) for _ in range(c.layers)])
        self.norm = nn.RMSNorm(c.dim)
        self.head = nn.Linear(c.dim, c.vocab, bias=False)
        size = c.dim // c.heads
        speed = 10000 ** (-torch.arange(0, size, 2) / size)
        angle = torch.outer(torch.arange(c.block), speed)
        self.register_buffer("cos", angle.cos(), persistent=False)
        self.register_buffer("sin", angle.sin(), persistent=False)

    def forward(self, ids, targets):
        x, T = self.embed(ids), ids.shape[1]
        for layer in self.layers:
            x = layer(x, self.cos[:T], self.sin[:T])
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--block", type=int, default=1024)
    parser.add_argument("--dim", type=int, default=768)
    parser.add_argument("--layers", type=int, default=10)
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--kv-heads", type=int, default=4)
    parser.add_argument("--vocab", type=int, default=32000)
    parser.add_argument("--updates", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high")
    data = torch.randint(0, args.vocab, (200_000,))

    def batch():
        starts = torch.randint(len(data) - args.block - 1, (args.batch_size,))
        x = torch.stack([data[s : s + args.block] for s in starts])
        y = torch.stack([data[s + 1 : s + 1 + args.block] for s in starts])
        return x.pin_memory().to("cuda", non_blocking=True), y.to("cuda")

    sizes = (args.vocab, args.block, args.dim, args.layers, args.heads, args.kv_heads)
    model = Model(Config(*sizes)).to("cuda")
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    rest = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=3e-4, betas=(0.9, 0.95), fused=True)
    for update in range(args.updates):
        if update % 2 == 0:
            model.eval()
            with torch.no_grad(), torch.autocast("cuda", torch.bfloat16):
                held = sum(model(*batch()).item() for _ in range(2)) / 2
            print(f"update {update} held out {held:.4f}")
            model.train()
        for _ in range(2):
            with torch.autocast("cuda", torch.bfloat16):
                loss = model(*batch()) / 2
            loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        print(f"update {update} loss {2 * loss.item():.4f} norm {norm.item():.3f}")


if __name__ == "__main__":
    main()
