"""A GPT in full precision with tied weights, ALiBi, accumulation, evaluation between updates."""

import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


def alibi_slopes(heads):
    return torch.tensor([2 ** (-8 * (h + 1) / heads) for h in range(heads)])


class Attention(nn.Module):
    def __init__(self, dim, heads, dropout):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(dim, dim, bias=False)
        self.key = nn.Linear(dim, dim, bias=False)
        self.value = nn.Linear(dim, dim, bias=False)
        self.out = nn.Linear(dim, dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, bias):
        B, T, D = x.shape
        q, k, v = (
            f(x).view(B, T, self.heads, D // self.heads).transpose(1, 2)
            for f in (self.query, self.key, self.value)
        )
        scores = torch.einsum("bhid,bhjd->bhij", q, k) / math.sqrt(D // self.heads) + bias
        weights = self.dropout(scores.softmax(dim=-1))
        y = torch.einsum("bhij,bhjd->bhid", weights, v)
        return self.out(y.transpose(1, 2).reshape(B, T, D))


class Block(nn.Module):
    def __init__(self, dim, heads, dropout):
        super().__init__()
        self.first, self.second = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attention = Attention(dim, heads, dropout)
        self.feed = nn.Sequential(
            nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim), nn.Dropout(dropout)
        )

    def forward(self, x, bias):
        x = x + self.attention(self.first(x), bias)
        return x + self.feed(self.second(x))


class GPT(nn.Module):
    def __init__(self, vocab, length, dim, heads, layers, dropout=0.1):
        super().__init__()
        self.tokens = nn.Embedding(vocab, dim)
        self.blocks = nn.ModuleList([Block(dim, heads, dropout) for _ in range(layers)])
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, vocab, bias=False)
        self.head.weight = self.tokens.weight
        nn.init.normal_(self.tokens.weight, std=0.02)
        distance = torch.arange(length)[None, :] - torch.arange(length)[:, None]
        bias = alibi_slopes(heads)[:, None, None] * distance
        bias = bias.masked_fill(distance > 0, float("-inf"))
        self.register_buffer("bias", bias, persistent=False)

    def forward(self, ids, targets):
        x = self.tokens(ids)
        bias = self.bias[:, : ids.size(1), : ids.size(1)]
        for block in self.blocks:
            x = block(x, bias)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=6)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--dim", type=int, default=768)
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--vocab", type=int, default=32000)
    parser.add_argument("--accumulation", type=int, default=2)
    parser.add_argument("--updates", type=int, default=3)
    args = parser.parse_args()
    torch.manual_seed(1)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    text = torch.randint(0, args.vocab, (200_000,))

    def batch(size):
        starts = torch.randint(0, len(text) - args.length - 1, (size,)).tolist()
        x = torch.stack([text[s : s + args.length] for s in starts])
        y = torch.stack([text[s + 1 : s + args.length + 1] for s in starts])
        return x.to(device), y.to(device)

    model = GPT(args.vocab, args.length, args.dim, args.heads, args.layers).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), foreach=False)
    for update in range(args.updates):
        optimizer.zero_grad(set_to_none=False)
        total = 0.0
        for _ in range(args.accumulation):
            loss = model(*batch(args.batch_size)) / args.accumulation
            loss.backward()
            total += loss.item()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=False)
        optimizer.step()
        model.eval()
        with torch.no_grad():
            held_out = model(*batch(2 * args.batch_size)).item()
        model.train()
        print(f"update {update}: train {total:.3f}, held out {held_out:.3f}")


if __name__ == "__main__":
    main()
