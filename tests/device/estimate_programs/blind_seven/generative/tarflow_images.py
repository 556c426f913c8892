"""A normalizing flow of causal transformers over patches: each block shifts and scales a patch by
what came before it, and the order is reversed between blocks.
"""

import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class CausalLayer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x):
        B, T, C = x.shape
        qkv = self.qkv(self.norm1(x)).view(B, T, 3, self.heads, C // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(B, T, C))
        return x + self.mlp(self.norm2(x))


class FlowBlock(nn.Module):
    def __init__(self, dim, width, layers, heads, tokens, flip):
        super().__init__()
        self.flip = flip
        self.inp = nn.Linear(dim, width)
        self.position = nn.Parameter(torch.randn(tokens, width) * 0.02)
        self.layers = nn.ModuleList(CausalLayer(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.out = nn.Linear(width, 2 * dim)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    def parameters_of(self, x):
        h = self.inp(x) + self.position[: x.shape[1]]
        for layer in self.layers:
            h = layer(h)
        log_scale, shift = self.out(self.norm(h)).float().chunk(2, dim=-1)
        # The first patch stays as it is; patch i uses what was computed from those before it.
        log_scale = F.pad(log_scale[:, :-1], (0, 0, 1, 0))
        shift = F.pad(shift[:, :-1], (0, 0, 1, 0))
        return 2 * torch.tanh(log_scale / 2), shift

    def forward(self, x):
        if self.flip:
            x = x.flip(1)
        log_scale, shift = self.parameters_of(x)
        z = (x - shift) * torch.exp(-log_scale)
        return (z.flip(1) if self.flip else z), -log_scale.mean(dim=(1, 2))

    @torch.no_grad()
    def inverse(self, z, limit):
        if self.flip:
            z = z.flip(1)
        x = z.clone()
        for i in range(1, min(limit, z.shape[1])):
            log_scale, shift = self.parameters_of(x[:, : i + 1])
            x[:, i] = z[:, i] * torch.exp(log_scale[:, -1]) + shift[:, -1]
        return x.flip(1) if self.flip else x


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=48)
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--patch", type=int, default=4)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--blocks", type=int, default=6)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--noise", type=float, default=0.05)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--sample-tokens", type=int, default=12)
    args = parser.parse_args()

    torch.manual_seed(0)
    dim = 3 * args.patch**2
    tokens = (args.size // args.patch) ** 2
    flow = nn.ModuleList(
        FlowBlock(dim, args.width, args.layers, args.heads, tokens, flip=i % 2 == 1)
        for i in range(args.blocks)
    ).to("cuda")
    optimizer = torch.optim.AdamW(flow.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=1e-4)
    print(f"{sum(p.numel() for p in flow.parameters()) / 1e6:.1f}M parameters, {tokens} patches")

    for step in range(args.steps):
        images = torch.rand(args.batch_size, 3, 8, 8, device="cuda") * 2 - 1
        images = F.interpolate(images, size=(args.size, args.size), mode="bilinear")
        images = images + args.noise * torch.randn_like(images)
        z = F.unfold(images, args.patch, stride=args.patch).transpose(1, 2)
        log_det = torch.zeros(len(z), device="cuda")
        for block in flow:
            with torch.autocast("cuda", dtype=torch.bfloat16):
                z, change = block(z)
            log_det = log_det + change
        loss = (0.5 * z.pow(2).mean(dim=(1, 2)) - log_det).mean()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(flow.parameters(), 1.0)
        optimizer.step()
        bits = (loss.item() + 0.5 * math.log(2 * math.pi)) / math.log(2) + 7
        print(f"step {step} loss {loss.item():.4f} bits per dimension {bits:.3f}")

    flow.eval()
    x = torch.randn(16, tokens, dim, device="cuda")
    for block in reversed(flow):
        x = block.inverse(x, args.sample_tokens)
    images = F.fold(x.transpose(1, 2), (args.size, args.size), args.patch, stride=args.patch)
    print("samples", tuple(images.shape), f"std {images.std().item():.3f}")


if __name__ == "__main__":
    main()
