"""A GPT in the newer style from scratch: rotary positions, RMSNorm, SwiGLU, loss in chunks."""

import argparse
import math
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        y = x.float()
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps)
        return y.type_as(x) * self.weight


def rotary(length, dim, device, base=10000.0):
    inv = 1.0 / base ** (torch.arange(0, dim, 2, device=device).float() / dim)
    angle = torch.outer(torch.arange(length, device=device).float(), inv)
    return angle.cos(), angle.sin()


def rotate(x, cos, sin):
    a, b = x.float().chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1).type_as(x)


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = RMSNorm(dim), RMSNorm(dim)
        self.wqkv = nn.Linear(dim, 3 * dim, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)
        hidden = 64 * math.ceil(8 * dim / 3 / 64)
        self.w1, self.w3 = nn.Linear(dim, hidden, bias=False), nn.Linear(dim, hidden, bias=False)
        self.w2 = nn.Linear(hidden, dim, bias=False)

    def forward(self, x, cos, sin):
        B, T, C = x.shape
        q, k, v = self.wqkv(self.norm1(x)).view(B, T, 3, self.heads, -1).unbind(2)
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.wo(y.transpose(1, 2).reshape(B, T, C))
        h = self.norm2(x)
        return x + self.w2(F.silu(self.w1(h)) * self.w3(h))


class Model(nn.Module):
    def __init__(self, vocab, dim, layers, heads):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(layers))
        self.norm = RMSNorm(dim)
        self.head = nn.Linear(dim, vocab, bias=False)
        self.head_dim = dim // heads

    def forward(self, ids, targets, chunks=4):
        cos, sin = rotary(ids.size(1), self.head_dim, ids.device)
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x, cos, sin)
        x = self.norm(x).flatten(0, 1)
        loss = 0.0
        for h, t in zip(x.chunk(chunks), targets.flatten().chunk(chunks)):
            loss = loss + F.cross_entropy(self.head(h).float(), t, reduction="sum")
        return loss / targets.numel()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--seq", type=int, default=1024)
    parser.add_argument("--dim", type=int, default=768)
    parser.add_argument("--layers", type=int, default=10)
    parser.add_argument("--vocab", type=int, default=32768)
    parser.add_argument("--accum", type=int, default=2)
    parser.add_argument("--iters", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(1337)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.set_float32_matmul_precision("high")
    model = Model(args.vocab, args.dim, args.layers, args.dim // 64).to(device)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=6e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=device == "cuda"
    )
    data = torch.randint(0, args.vocab, (200_000,))
    for it in range(args.iters):
        started = time.time()
        for group in optimizer.param_groups:
            group["lr"] = 6e-4 * min(1.0, (it + 1) / 2)
        for _ in range(args.accum):
            at = torch.randint(len(data) - args.seq - 1, (args.batch,))
            x = torch.stack([data[i : i + args.seq] for i in at]).to(device)
            y = torch.stack([data[i + 1 : i + 1 + args.seq] for i in at]).to(device)
            with torch.autocast(device, dtype=torch.bfloat16):
                loss = model(x, y) / args.accum
            loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        print(f"iter {it}: {loss.item() * args.accum:.3f}, {time.time() - started:.2f} s")


if __name__ == "__main__":
    main()
