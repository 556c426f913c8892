"""A language model with a mixture of experts of its own: top-2 routing, balance loss, bf16."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


class Experts(nn.Module):
    def __init__(self, width, hidden, experts, top_k):
        super().__init__()
        self.top_k = top_k
        self.gate = nn.Linear(width, experts, bias=False)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, hidden), nn.SiLU(), nn.Linear(hidden, width))
            for _ in range(experts)
        )

    def forward(self, x):
        shape = x.shape
        x = x.reshape(-1, shape[-1])
        probabilities = F.softmax(self.gate(x).float(), dim=-1)
        weights, chosen = probabilities.topk(self.top_k, dim=-1)
        weights = (weights / weights.sum(-1, keepdim=True)).to(x.dtype)
        out = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            token, rank = torch.where(chosen == number)
            out.index_add_(0, token, expert(x[token]) * weights[token, rank, None])
        load = F.one_hot(chosen, len(self.experts)).float().mean((0, 1))
        balance = len(self.experts) * (load * probabilities.mean(0)).sum()
        return out.view(shape), balance


class Block(nn.Module):
    def __init__(self, width, experts, top_k):
        super().__init__()
        self.heads = width // 64
        self.norm1, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.proj = nn.Linear(width, width, bias=False)
        self.moe = Experts(width, 2 * width, experts, top_k)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, 64).unbind(2)
        y = F.scaled_dot_product_attention(
            q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True
        )
        x = x + self.proj(y.transpose(1, 2).reshape(batch, length, width))
        y, balance = self.moe(self.norm2(x))
        return x + y, balance


class MoELM(nn.Module):
    def __init__(self, words, width, layers, experts, top_k):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.blocks = nn.ModuleList(Block(width, experts, top_k) for _ in range(layers))
        self.norm = nn.RMSNorm(width)
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, ids):
        x = self.embed(ids)
        balances = []
        for block in self.blocks:
            x, balance = block(x)
            balances.append(balance)
        return self.head(self.norm(x)), torch.stack(balances).mean()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--experts", type=int, default=8)
    parser.add_argument("--words", type=int, default=32000)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()

    torch.manual_seed(2)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = MoELM(args.words, args.width, args.layers, args.experts, 2).to(device, torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.01)
    for step in range(args.steps):
        ids = torch.randint(0, args.words, (args.batch_size, args.length + 1), device=device)
        logits, balance = model(ids[:, :-1])
        loss = F.cross_entropy(logits.float().flatten(0, 1), ids[:, 1:].flatten())
        (loss + 0.01 * balance).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        print(f"step {step} loss {loss.item():.4f} balance {balance.item():.3f}")
