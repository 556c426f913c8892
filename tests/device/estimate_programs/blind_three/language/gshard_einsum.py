"""Experts in the manner of GShard: one-hot dispatch and combine tensors, top 2, batched matmuls."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


class Experts(nn.Module):
    def __init__(self, dim, hidden, experts, factor):
        super().__init__()
        self.router = nn.Linear(dim, experts, bias=False)
        self.up = nn.Parameter(torch.randn(experts, dim, hidden) * dim**-0.5)
        self.down = nn.Parameter(torch.randn(experts, hidden, dim) * hidden**-0.5)
        self.experts, self.factor = experts, factor

    def forward(self, x):
        groups, tokens, _ = x.shape
        capacity = int(2 * self.factor * tokens / self.experts)
        with torch.autocast(x.device.type, enabled=False):
            gates = F.linear(x.float(), self.router.weight.float()).softmax(-1)
        weight, choice = gates.topk(2, dim=-1)
        weight = weight / weight.sum(-1, keepdim=True)
        combine = gates.new_zeros(groups, tokens, self.experts, capacity)
        taken = gates.new_zeros(groups, 1, self.experts)
        for rank in range(2):
            hot = F.one_hot(choice[..., rank], self.experts).to(gates.dtype)
            place = (hot.cumsum(1) - 1 + taken) * hot
            taken = taken + hot.sum(1, keepdim=True)
            fits = hot * (place < capacity)
            slot = F.one_hot((place * fits).sum(-1).long(), capacity).to(gates.dtype)
            share = (weight[..., rank, None] * fits)[..., None]
            combine = combine + share * slot[:, :, None, :]
        dispatch = (combine > 0).to(x.dtype)
        inside = torch.einsum("gtec,gtd->egcd", dispatch, x)
        hidden = F.gelu(torch.einsum("egcd,edh->egch", inside, self.up))
        outside = torch.einsum("egch,ehd->egcd", hidden, self.down)
        y = torch.einsum("gtec,egcd->gtd", combine.to(outside.dtype), outside)
        load = F.one_hot(choice[..., 0], self.experts).float().mean((0, 1))
        balance = self.experts * (load * gates.mean((0, 1))).sum()
        return y, balance


class Layer(nn.Module):
    def __init__(self, dim, heads, sparse, experts, factor):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attention = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.sparse = sparse
        if sparse:
            self.feed = Experts(dim, 4 * dim, experts, factor)
        else:
            self.feed = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x, mask):
        h = self.norm1(x)
        x = x + self.attention(h, h, h, attn_mask=mask, need_weights=False, is_causal=True)[0]
        if not self.sparse:
            return x + self.feed(self.norm2(x)), 0.0
        y, balance = self.feed(self.norm2(x))
        return x + y, balance


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--dim", type=int, default=768)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--experts", type=int, default=8)
    parser.add_argument("--factor", type=float, default=1.25)
    parser.add_argument("--vocab", type=int, default=16000)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    with device:
        embed = nn.Embedding(args.vocab, args.dim)
        layers = nn.ModuleList(
            Layer(args.dim, args.dim // 64, i % 2 == 1, args.experts, args.factor)
            for i in range(args.layers)
        )
        head = nn.Linear(args.dim, args.vocab)
    params = [*embed.parameters(), *layers.parameters(), *head.parameters()]
    optimizer = torch.optim.AdamW(params, lr=1e-3, capturable=device.type == "cuda")
    mask = nn.Transformer.generate_square_subsequent_mask(args.length, device=device)
    for step in range(args.steps):
        ids = torch.randint(args.vocab, (args.batch_size, args.length + 1), device=device)
        with torch.autocast(device.type, dtype=torch.bfloat16):
            x, balance = embed(ids[:, :-1]), 0.0
            for layer in layers:
                x, extra = layer(x, mask)
                balance = balance + extra
            loss = F.cross_entropy(head(x).transpose(1, 2), ids[:, 1:])
        optimizer.zero_grad()
        (loss + 0.01 * balance).backward()
        optimizer.step()
        print(f"step {step}: loss {loss.item():.4f}, balance {balance.item():.3f}")


if __name__ == "__main__":
    main()
