"""Long documents with sliding-window attention of our own (blocks and neighbours) and Lion."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint


class Lion(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self, closure=None):
        loss = None if closure is None else closure()
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if len(state) == 0:
                    state["exp_avg"] = torch.zeros_like(p)
                m = state["exp_avg"]
                p.mul_(1 - group["lr"] * group["weight_decay"])
                update = m.clone().mul_(beta1).add(p.grad, alpha=1 - beta1).sign_()
                p.add_(update, alpha=-group["lr"])
                m.mul_(beta2).add_(p.grad, alpha=1 - beta2)
        return loss


def windows(x, size):
    """(B, H, T, D) -> (B, H, T / size, 2 * size, D): every block with the block before it."""
    x = F.pad(x, (0, 0, size, 0)).unfold(2, 2 * size, size)
    return x.transpose(-1, -2)


class LocalAttention(nn.Module):
    def __init__(self, dim, heads, window):
        super().__init__()
        self.heads, self.window = heads, window
        self.to_qkv = nn.Linear(dim, dim * 3, bias=False)
        self.to_out = nn.Linear(dim, dim)
        i = torch.arange(window)[:, None] + window
        j = torch.arange(2 * window)[None]
        self.register_buffer("allowed", (j <= i) & (j > i - window), persistent=False)
        self.bias = nn.Parameter(torch.zeros(heads, 1, window, 2 * window))

    def forward(self, x):
        B, T, C = x.shape
        w = self.window
        q, k, v = self.to_qkv(x).chunk(3, dim=-1)
        q, k, v = (t.reshape(B, T, self.heads, -1).transpose(1, 2) for t in (q, k, v))
        q = q.reshape(B, self.heads, T // w, w, -1)
        k, v = windows(k, w), windows(v, w)
        scores = torch.einsum("bhnid,bhnjd->bhnij", q, k) * q.shape[-1] ** -0.5
        scores = scores + self.bias
        scores = scores.masked_fill(~self.allowed, torch.finfo(scores.dtype).min)
        out = torch.einsum("bhnij,bhnjd->bhnid", scores.softmax(dim=-1), v)
        return self.to_out(out.reshape(B, self.heads, T, -1).transpose(1, 2).reshape(B, T, C))


class Block(nn.Module):
    def __init__(self, dim, heads, window):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = LocalAttention(dim, heads, window)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Model(nn.Module):
    def __init__(self, vocab, dim, depth, window, length):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.pos = nn.Parameter(torch.randn(length, dim) * 0.02)
        self.blocks = nn.ModuleList([Block(dim, dim // 64, window) for _ in range(depth)])
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids):
        x = self.embed(ids) + self.pos[: ids.size(1)]
        for i, block in enumerate(self.blocks):
            # Only every second block, a compromise between time and memory.
            again = self.training and i % 2
            x = checkpoint(block, x, use_reentrant=False) if again else block(x)
        return self.head(self.norm(x))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=2)
    parser.add_argument("--length", type=int, default=8192)
    parser.add_argument("--window", type=int, default=256)
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--depth", type=int, default=6)
    parser.add_argument("--vocab", type=int, default=10000)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Model(args.vocab, args.dim, args.depth, args.window, args.length).to(device)
    optimizer = Lion(model.parameters(), lr=1e-4, weight_decay=0.1)
    best = None
    for step in range(args.steps):
        doc = torch.randint(0, args.vocab, (args.batch_size, args.length + 1), device=device)
        with torch.autocast(device.type, dtype=torch.bfloat16):
            logits = model(doc[:, :-1])
            loss = F.cross_entropy(logits.view(-1, args.vocab), doc[:, 1:].reshape(-1))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        best = loss.item() if best is None else min(best, loss.item())
        print(f"step {step}: loss {loss.item():.4f} (best {best:.4f})")


if __name__ == "__main__":
    main()
