"""A diffusion transformer with adaptive norms trained as a rectified flow in bf16; the average of
the weights is kept as a list of tensors with foreach operations.
"""

import argparse

import torch
import torch.nn.functional as F
from torch import nn


class DiTBlock(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim, elementwise_affine=False, eps=1e-6)
        self.norm2 = nn.LayerNorm(dim, elementwise_affine=False, eps=1e-6)
        self.attn = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU("tanh"), nn.Linear(4 * dim, dim))
        self.ada = nn.Sequential(nn.SiLU(), nn.Linear(dim, 6 * dim))
        nn.init.zeros_(self.ada[1].weight)
        nn.init.zeros_(self.ada[1].bias)

    def forward(self, x, c):
        s1, b1, g1, s2, b2, g2 = self.ada(c)[:, None].chunk(6, dim=-1)
        h = self.norm1(x) * (1 + s1) + b1
        x = x + g1 * self.attn(h, h, h, need_weights=False)[0]
        return x + g2 * self.mlp(self.norm2(x) * (1 + s2) + b2)


class DiT(nn.Module):
    def __init__(self, size, patch, channels, dim, depth, heads, classes):
        super().__init__()
        self.patch, self.channels, self.side = patch, channels, size // patch
        self.embed = nn.Conv2d(channels, dim, patch, patch)
        self.places = nn.Parameter(torch.randn(1, self.side**2, dim) * 0.02)
        self.time = nn.Sequential(nn.Linear(256, dim), nn.SiLU(), nn.Linear(dim, dim))
        self.label = nn.Embedding(classes + 1, dim)
        self.blocks = nn.ModuleList(DiTBlock(dim, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(dim, elementwise_affine=False)
        self.out = nn.Linear(dim, patch * patch * channels)
        self.register_buffer("freqs", torch.exp(torch.linspace(0, 6, 128)), persistent=False)

    def forward(self, x, t, y):
        x = self.embed(x).flatten(2).transpose(1, 2) + self.places
        angles = t[:, None] * self.freqs
        c = self.time(torch.cat([angles.sin(), angles.cos()], -1)) + self.label(y)
        for block in self.blocks:
            x = block(x, c)
        x = self.out(self.norm(x))
        n, p = self.side, self.patch
        x = x.view(-1, n, n, p, p, self.channels).permute(0, 5, 1, 3, 2, 4)
        return x.reshape(-1, self.channels, n * p, n * p)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--size", type=int, default=32)
    parser.add_argument("--patch", type=int, default=2)
    parser.add_argument("--dim", type=int, default=768)
    parser.add_argument("--depth", type=int, default=12)
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--sample-steps", type=int, default=6)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda")
    model = DiT(args.size, args.patch, 4, args.dim, args.depth, args.heads, args.classes).to(device)
    ema = [p.detach().clone() for p in model.parameters()]
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0)
    for step in range(args.steps):
        data = torch.randn(args.batch_size, 4, args.size, args.size, device=device)
        y = torch.randint(0, args.classes, (args.batch_size,), device=device)
        y[torch.rand(args.batch_size, device=device) < 0.1] = args.classes
        t = torch.sigmoid(torch.randn(args.batch_size, device=device))
        noise = torch.randn_like(data)
        mixed = torch.lerp(data, noise, t[:, None, None, None])
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = F.mse_loss(model(mixed, t, y).float(), noise - data)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        torch._foreach_lerp_(ema, [p.detach() for p in model.parameters()], 1e-4)
        print(f"step {step} loss {loss.item():.4f}")

    model.eval()
    with torch.no_grad(), torch.autocast("cuda", dtype=torch.bfloat16):
        for p, average in zip(model.parameters(), ema):
            p.copy_(average)
        x = torch.randn(8, 4, args.size, args.size, device=device)
        y = torch.arange(8, device=device) % args.classes
        nothing = torch.full_like(y, args.classes)
        for i in range(args.sample_steps):
            t = torch.full((8,), 1 - i / args.sample_steps, device=device)
            both = model(torch.cat([x, x]), torch.cat([t, t]), torch.cat([y, nothing]))
            given, free = both.chunk(2)
            x = x - (free + 4.0 * (given - free)) / args.sample_steps
    print("samples", x.float().std().item())


if __name__ == "__main__":
    main()
