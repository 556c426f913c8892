"""A decoder whose experts have a capacity: noisy top-2 gates, tokens gathered and index_added."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


class Expert(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.up = nn.Linear(dim, hidden, bias=False)
        self.gate = nn.Linear(dim, hidden, bias=False)
        self.down = nn.Linear(hidden, dim, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class MoE(nn.Module):
    def __init__(self, dim, hidden, experts, capacity=1.25):
        super().__init__()
        self.router = nn.Linear(dim, experts, bias=False)
        self.noise = nn.Linear(dim, experts, bias=False)
        self.experts = nn.ModuleList(Expert(dim, hidden) for _ in range(experts))
        self.capacity = capacity
        self.z_loss = 0.0

    def forward(self, x):
        shape = x.shape
        x = x.reshape(-1, shape[-1])
        logits = self.router(x).float()
        if self.training:
            logits = logits + torch.randn_like(logits) * F.softplus(self.noise(x).float())
        weights, picks = logits.softmax(-1).topk(2, dim=-1)
        weights = weights / weights.sum(-1, keepdim=True)
        self.z_loss = logits.logsumexp(-1).square().mean()
        limit = int(self.capacity * 2 * len(x) / len(self.experts))
        out = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            token, slot = torch.where(picks == i)
            token, slot = token[:limit], slot[:limit]
            if token.numel() == 0:
                continue
            y = expert(x[token]) * weights[token, slot, None].to(x.dtype)
            out.index_add_(0, token, y)
        return out.view(shape)


class Layer(nn.Module):
    def __init__(self, dim, heads, hidden, experts):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.RMSNorm(dim), nn.RMSNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)
        self.moe = MoE(dim, hidden, experts)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(B, T, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(B, T, C))
        return x + self.moe(self.norm2(x))


class Decoder(nn.Module):
    def __init__(self, vocab, dim, layers, hidden, experts):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.layers = nn.ModuleList(Layer(dim, dim // 64, hidden, experts) for _ in range(layers))
        self.norm = nn.RMSNorm(dim)
        self.head = nn.Linear(dim, vocab, bias=False)

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--dim", type=int, default=768)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--experts", type=int, default=8)
    parser.add_argument("--vocab", type=int, default=16000)
    parser.add_argument("--steps", type=int, default=5)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    # All of it in bfloat16, without autocast.
    model = Decoder(args.vocab, args.dim, args.layers, 2 * args.dim, args.experts)
    model = model.to(device=device, dtype=torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=False)
    for step in range(args.steps):
        ids = torch.randint(0, args.vocab, (args.batch_size, args.length + 1), device=device)
        logits = model(ids[:, :-1])
        loss = F.cross_entropy(logits.reshape(-1, args.vocab).float(), ids[:, 1:].reshape(-1))
        z = sum(layer.moe.z_loss for layer in model.layers)
        (loss + 1e-3 * z).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        print(f"{step}: loss {loss.item():.4f}  z {z.item():.4f}")
    model.eval()
    with torch.no_grad():
        logits = model(ids[:, :-1])
        print("accuracy", (logits.argmax(-1) == ids[:, 1:]).float().mean().item())


if __name__ == "__main__":
    main()
