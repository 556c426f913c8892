"""A decoder with eight experts per layer and two chosen per token, written by hand: every expert
takes the rows that chose it and adds its answers back.
"""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


class Expert(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.w1 = nn.Linear(dim, hidden, bias=False)
        self.w2 = nn.Linear(hidden, dim, bias=False)
        self.w3 = nn.Linear(dim, hidden, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class SparseMoE(nn.Module):
    def __init__(self, dim, hidden, experts, k):
        super().__init__()
        self.k = k
        self.gate = nn.Linear(dim, experts, bias=False)
        self.experts = nn.ModuleList(Expert(dim, hidden) for _ in range(experts))

    def forward(self, x):
        flat = x.reshape(-1, x.size(-1))
        scores = self.gate(flat)
        weights, chosen = scores.topk(self.k, dim=-1)
        weights = weights.softmax(dim=-1, dtype=torch.float32).to(x.dtype)
        out = torch.zeros_like(flat)
        for number, expert in enumerate(self.experts):
            rows, nth = torch.where(chosen == number)
            if rows.numel() == 0:
                continue
            answer = expert(flat[rows]) * weights[rows, nth, None]
            out.index_add_(0, rows, answer.to(out.dtype))
        share = F.one_hot(chosen[:, 0], len(self.experts)).float().mean(0)
        balance = len(self.experts) * (share * scores.float().softmax(-1).mean(0)).sum()
        return out.view_as(x), balance


class Block(nn.Module):
    def __init__(self, dim, heads, experts, k):
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(dim), nn.RMSNorm(dim)
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)
        self.moe = SparseMoE(dim, dim * 7 // 2, experts, k)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(B, T, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(B, T, C))
        update, balance = self.moe(self.norm2(x))
        return x + update, balance


class Model(nn.Module):
    def __init__(self, vocab, dim, heads, layers, experts, k, longest):
        super().__init__()
        self.tokens = nn.Embedding(vocab, dim)
        self.places = nn.Embedding(longest, dim)
        self.blocks = nn.ModuleList(Block(dim, heads, experts, k) for _ in range(layers))
        self.norm = nn.RMSNorm(dim)
        self.head = nn.Linear(dim, vocab, bias=False)
        self.head.weight = self.tokens.weight
        nn.init.normal_(self.tokens.weight, std=0.02)

    def forward(self, ids, targets):
        x = self.tokens(ids) + self.places.weight[: ids.size(1)]
        balance = 0.0
        for block in self.blocks:
            x, b = block(x)
            balance = balance + b
        logits = self.head(self.norm(x))
        loss = F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())
        return loss, balance / len(self.blocks)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--experts", type=int, default=8)
    parser.add_argument("--k", type=int, default=2)
    parser.add_argument("--vocab", type=int, default=32000)
    parser.add_argument("--steps", type=int, default=5)
    args = parser.parse_args()
    torch.manual_seed(0)
    model = Model(
        args.vocab, args.dim, args.heads, args.layers, args.experts, args.k, args.length
    ).to("cuda")
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95))
    for step in range(args.steps):
        ids = torch.randint(0, args.vocab, (args.batch_size, args.length + 1), device="cuda")
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss, balance = model(ids[:, :-1], ids[:, 1:])
        optimizer.zero_grad(set_to_none=True)
        (loss + 0.01 * balance).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        print(f"step {step} loss {loss.item():.3f} balance {balance.item():.3f}")


if __name__ == "__main__":
    main()
