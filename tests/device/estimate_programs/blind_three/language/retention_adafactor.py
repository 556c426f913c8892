"""A linear-attention language model in chunks with decay; a factored optimizer written by hand."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint


class Retention(nn.Module):
    """Within a chunk as a masked product, between chunks by a state of keys times values."""

    def __init__(self, dim, heads, chunk):
        super().__init__()
        self.heads, self.chunk = heads, chunk
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.gate = nn.Linear(dim, dim)
        self.norm = nn.GroupNorm(heads, dim)
        self.out = nn.Linear(dim, dim, bias=False)
        decay = 1 - 2.0 ** (-5 - torch.arange(heads).float())
        place = torch.arange(chunk)
        distance = (place[:, None] - place[None, :]).float()
        within = torch.where(distance >= 0, decay[:, None, None] ** distance.clamp(min=0), 0.0)
        self.register_buffer("within", within)
        self.register_buffer("since", decay[:, None] ** (place + 1))
        self.register_buffer("until", decay[:, None] ** (chunk - 1 - place))
        self.register_buffer("whole", decay**chunk)

    def forward(self, x):
        B, T, D = x.shape
        H, C = self.heads, self.chunk
        qkv = self.qkv(x).view(B, T // C, C, 3, H, D // H).permute(3, 1, 0, 4, 2, 5)
        state = x.new_zeros(B, H, D // H, D // H, dtype=torch.float32)
        parts = []
        for q, k, v in zip(*qkv):
            scores = (q @ k.transpose(-1, -2)) * self.within * (D // H) ** -0.5
            inner = scores.to(v.dtype) @ v
            cross = (q * self.since[..., None]).float() @ state
            parts.append(inner.float() + cross)
            keys = (k * self.until[..., None]).float()
            state = state * self.whole[:, None, None] + keys.transpose(-1, -2) @ v.float()
        y = torch.stack(parts, 1)  # B, N, H, C, d
        y = y.permute(0, 1, 3, 2, 4).reshape(B * T, D)
        return self.out(self.norm(y).view(B, T, D) * F.silu(self.gate(x)))


class Block(nn.Module):
    def __init__(self, dim, heads, chunk):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.mix = Retention(dim, heads, chunk)
        self.wide, self.narrow = nn.Linear(dim, 4 * dim), nn.Linear(2 * dim, dim)

    def forward(self, x):
        x = x + self.mix(self.norm1(x))
        a, b = self.wide(self.norm2(x)).chunk(2, dim=-1)
        return x + self.narrow(a * b.sigmoid())


class Factored(torch.optim.Optimizer):
    """Second moments of matrices as a row and a column vector, as in Adafactor; no momentum."""

    def __init__(self, params, lr=1e-2, decay=0.8, clip=1.0):
        super().__init__(params, {"lr": lr, "decay": decay, "clip": clip})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                square = p.grad.square().add_(1e-30)
                if not state:
                    state["step"] = 0
                    if p.ndim == 2:
                        state["row"] = square.mean(1)
                        state["column"] = square.mean(0)
                    else:
                        state["full"] = square.clone()
                state["step"] += 1
                beta = 1 - state["step"] ** -group["decay"]
                if p.ndim == 2:
                    state["row"].lerp_(square.mean(1), 1 - beta)
                    state["column"].lerp_(square.mean(0), 1 - beta)
                    row = (state["row"] / state["row"].mean()).rsqrt()
                    update = p.grad * row[:, None] * state["column"].rsqrt()[None, :]
                else:
                    state["full"].lerp_(square, 1 - beta)
                    update = p.grad * state["full"].rsqrt()
                rms = update.square().mean().sqrt()
                update /= (rms / group["clip"]).clamp(min=1.0)
                scale = p.square().mean().sqrt().clamp(min=1e-3)
                p.sub_(update * scale * group["lr"])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--length", type=int, default=2048)
    parser.add_argument("--chunk", type=int, default=256)
    parser.add_argument("--dim", type=int, default=1024)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--vocab", type=int, default=32000)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    embed = nn.Embedding(args.vocab, args.dim).to(device)
    blocks = nn.ModuleList(
        [Block(args.dim, args.heads, args.chunk) for _ in range(args.layers)]
    ).to(device)
    head = nn.Linear(args.dim, args.vocab, bias=False).to(device)
    optimizer = Factored([*embed.parameters(), *blocks.parameters(), *head.parameters()])
    for step in range(args.steps):
        ids = torch.randint(args.vocab, (args.batch_size, args.length + 1), device=device)
        with torch.autocast(device.type, torch.bfloat16):
            x = embed(ids[:, :-1])
            for i, block in enumerate(blocks):
                x = checkpoint(block, x, use_reentrant=True) if i % 2 == 0 else block(x)
            loss = F.cross_entropy(head(x).flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"step {step}: {loss.item():.4f}")


if __name__ == "__main__":
    main()
