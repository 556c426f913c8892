"""A decoder with a shared expert and routed ones, dispatched by sorting the tokens by expert."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


class MLP(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.up, self.gate = nn.Linear(dim, hidden, bias=False), nn.Linear(dim, hidden, bias=False)
        self.down = nn.Linear(hidden, dim, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class SharedMoE(nn.Module):
    def __init__(self, dim, experts, top_k, hidden):
        super().__init__()
        self.top_k = top_k
        self.router = nn.Linear(dim, experts, bias=False)
        self.shared = MLP(dim, 2 * hidden)
        self.experts = nn.ModuleList(MLP(dim, hidden) for _ in range(experts))

    def forward(self, x):
        flat = x.reshape(-1, x.size(-1))
        scores = torch.sigmoid(self.router(flat).float())
        weights, chosen = scores.topk(self.top_k, dim=-1)
        weights = (weights / weights.sum(-1, keepdim=True)).to(x.dtype)
        order = chosen.flatten().argsort()
        token = order // self.top_k
        counts = torch.bincount(chosen.flatten(), minlength=len(self.experts)).tolist()
        outputs = []
        for expert, rows in zip(self.experts, flat[token].split(counts)):
            outputs.append(expert(rows))
        routed = torch.cat(outputs) * weights.flatten()[order].unsqueeze(1)
        out = torch.zeros_like(flat).index_add_(0, token, routed.to(flat.dtype))
        return (out + self.shared(flat)).view_as(x)


class Layer(nn.Module):
    def __init__(self, dim, heads, experts, top_k):
        super().__init__()
        self.n1, self.n2 = nn.RMSNorm(dim), nn.RMSNorm(dim)
        self.heads = heads
        self.qkv, self.out = nn.Linear(dim, 3 * dim, bias=False), nn.Linear(dim, dim, bias=False)
        self.moe = SharedMoE(dim, experts, top_k, dim)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (
            self.qkv(self.n1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        )
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(a.transpose(1, 2).reshape(b, t, d))
        return x + self.moe(self.n2(x))


class Decoder(nn.Module):
    def __init__(self, vocab, dim, depth, experts, top_k, length):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab, dim), nn.Embedding(length, dim)
        self.layers = nn.ModuleList(Layer(dim, dim // 64, experts, top_k) for _ in range(depth))
        self.norm, self.head = nn.RMSNorm(dim), nn.Linear(dim, vocab, bias=False)

    def forward(self, ids):
        x = self.tok(ids) + self.pos(torch.arange(ids.size(1), device=ids.device))
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--batch", type=int, default=8)
    p.add_argument("--length", type=int, default=512)
    p.add_argument("--dim", type=int, default=512)
    p.add_argument("--depth", type=int, default=6)
    p.add_argument("--experts", type=int, default=8)
    p.add_argument("--top-k", type=int, default=2)
    p.add_argument("--vocab", type=int, default=20000)
    a = p.parse_args()
    torch.manual_seed(64)
    dev = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    net = Decoder(a.vocab, a.dim, a.depth, a.experts, a.top_k, a.length).to(dev)
    opt = torch.optim.AdamW(net.parameters(), lr=3e-4, weight_decay=0.05)
    for step in range(4):
        ids = torch.randint(a.vocab, (a.batch, a.length + 1), device=dev)
        with torch.autocast(dev.type, torch.bfloat16):
            logits = net(ids[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        print(step, loss.item())


if __name__ == "__main__":
    main()
