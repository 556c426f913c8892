"""A GPT whose matrices learn with Muon (orthogonalized momentum), the rest with fused AdamW."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


def orthogonalize(g, steps=5):
    """Newton-Schulz iteration in bf16 towards the nearest orthogonal matrix."""
    a, b, c = 3.4445, -4.7750, 2.0315
    x = g.bfloat16()
    tall = x.size(0) > x.size(1)
    if tall:
        x = x.T
    x = x / (x.norm() + 1e-7)
    for _ in range(steps):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if tall else x


class Muon(torch.optim.Optimizer):
    def __init__(self, params, lr=0.02, momentum=0.95):
        super().__init__(params, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if "buffer" not in state:
                    state["buffer"] = torch.zeros_like(p.grad)
                buffer = state["buffer"]
                buffer.lerp_(p.grad, 1 - group["momentum"])
                direction = p.grad.lerp(buffer, group["momentum"])
                scale = max(1, p.size(0) / p.size(1)) ** 0.5
                p.add_(orthogonalize(direction).to(p.dtype), alpha=-group["lr"] * scale)


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.project = nn.Linear(dim, dim, bias=False)
        self.up = nn.Linear(dim, 4 * dim, bias=False)
        self.down = nn.Linear(4 * dim, dim, bias=False)

    def forward(self, x):
        B, T, D = x.shape
        h = F.rms_norm(x, (D,))
        q, k, v = self.qkv(h).view(B, T, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q, k = F.rms_norm(q, (q.size(-1),)), F.rms_norm(k, (k.size(-1),))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=0.0)
        x = x + self.project(y.transpose(1, 2).reshape(B, T, D))
        return x + self.down(F.relu(self.up(F.rms_norm(x, (D,)))).square())


class GPT(nn.Module):
    def __init__(self, vocab, length, dim, heads, layers):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.place = nn.Embedding(length, dim)
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(layers))
        self.head = nn.Linear(dim, vocab, bias=False)

    def forward(self, ids, targets):
        x = self.embed(ids) + self.place(torch.arange(ids.size(1), device=ids.device))
        skips = []
        half = len(self.blocks) // 2
        for i, block in enumerate(self.blocks):
            if i < half:
                skips.append(x)
            elif skips:
                x = x + 0.5 * skips.pop()
            x = block(x)
        logits = self.head(F.rms_norm(x, (x.size(-1),)))
        logits = 15 * torch.tanh(logits / 15)
        return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--dim", type=int, default=768)
    parser.add_argument("--layers", type=int, default=10)
    parser.add_argument("--vocab", type=int, default=50304)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = GPT(args.vocab, args.length, args.dim, args.dim // 64, args.layers).to(device)
    matrices = [p for p in model.blocks.parameters() if p.ndim == 2]
    others = [*model.embed.parameters(), *model.place.parameters(), *model.head.parameters()]
    optimizers = [
        Muon(matrices),
        torch.optim.AdamW(others, lr=3e-3, betas=(0.8, 0.95), fused=device.type == "cuda"),
    ]
    data = torch.randint(args.vocab, (500_000,), dtype=torch.int32)
    for step in range(args.steps):
        starts = torch.randint(len(data) - args.length - 1, (args.batch_size,)).tolist()
        rows = torch.stack([data[s : s + args.length + 1] for s in starts])
        if device.type == "cuda":
            rows = rows.pin_memory().to(device, non_blocking=True)
        rows = rows.long()
        with torch.autocast(device.type, dtype=torch.bfloat16):
            loss = model(rows[:, :-1], rows[:, 1:].contiguous())
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
        model.zero_grad(set_to_none=True)
        print(f"step {step}: {loss.item():.4f}")


if __name__ == "__main__":
    main()
