"""A vision transformer from scratch: register tokens, layer scale, stochastic depth, qk-norm.
Gradients are accumulated over several small batches under bfloat16 autocast.
"""

import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class DropPath(nn.Module):
    def __init__(self, p):
        super().__init__()
        self.p = p

    def forward(self, x):
        if not self.training or self.p == 0.0:
            return x
        keep = 1 - self.p
        mask = x.new_empty(x.shape[0], 1, 1).bernoulli_(keep).div_(keep)
        return x * mask


class LayerScale(nn.Module):
    def __init__(self, dim, init=1e-4):
        super().__init__()
        self.gamma = nn.Parameter(torch.full((dim,), init))

    def forward(self, x):
        return x * self.gamma


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.q_norm = nn.LayerNorm(dim // heads)
        self.k_norm = nn.LayerNorm(dim // heads)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        B, N, C = x.shape
        q, k, v = self.qkv(x).view(B, N, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        q, k = self.q_norm(q).to(v.dtype), self.k_norm(k).to(v.dtype)
        out = F.scaled_dot_product_attention(q, k, v)
        return self.proj(out.transpose(1, 2).reshape(B, N, C))


class Block(nn.Module):
    def __init__(self, dim, heads, drop_path):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.attn = Attention(dim, heads)
        self.ls1 = LayerScale(dim)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
        self.ls2 = LayerScale(dim)
        self.drop_path = DropPath(drop_path)

    def forward(self, x):
        x = x + self.drop_path(self.ls1(self.attn(self.norm1(x))))
        return x + self.drop_path(self.ls2(self.mlp(self.norm2(x))))


class VisionTransformer(nn.Module):
    def __init__(self, size, patch, dim, depth, heads, registers, classes, drop_path=0.1):
        super().__init__()
        self.patch_embed = nn.Conv2d(3, dim, patch, stride=patch)
        self.pos = nn.Parameter(torch.zeros(1, (size // patch) ** 2, dim))
        self.cls = nn.Parameter(torch.zeros(1, 1, dim))
        self.registers = nn.Parameter(torch.zeros(1, registers, dim))
        rates = torch.linspace(0, drop_path, depth).tolist()
        self.blocks = nn.Sequential(*[Block(dim, heads, rate) for rate in rates])
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(2 * dim, classes)
        self.skip = 1 + registers
        for p in (self.pos, self.cls, self.registers):
            nn.init.trunc_normal_(p, std=0.02)
        self.apply(self.init_weights)

    @staticmethod
    def init_weights(module):
        if isinstance(module, nn.Linear):
            nn.init.trunc_normal_(module.weight, std=0.02)
            if module.bias is not None:
                nn.init.zeros_(module.bias)

    def forward(self, images):
        x = self.patch_embed(images).flatten(2).transpose(1, 2) + self.pos
        extra = torch.cat([self.cls, self.registers], dim=1).expand(len(x), -1, -1)
        x = self.norm(self.blocks(torch.cat([extra, x], dim=1)))
        return self.head(torch.cat([x[:, 0], x[:, self.skip :].mean(dim=1)], dim=-1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--accumulate", type=int, default=3)
    parser.add_argument("--image-size", type=int, default=256)
    parser.add_argument("--patch", type=int, default=16)
    parser.add_argument("--dim", type=int, default=768)
    parser.add_argument("--depth", type=int, default=12)
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--registers", type=int, default=4)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(42)

    model = VisionTransformer(
        args.image_size,
        args.patch,
        args.dim,
        args.depth,
        args.heads,
        args.registers,
        args.classes,
    ).cuda()
    print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.1f}M parameters")
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, betas=(0.9, 0.95), fused=True)

    def cosine(step):
        return min((step + 1) / 10, 0.5 * (1 + math.cos(math.pi * min(step, 300) / 300)))

    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, cosine)
    for step in range(args.steps):
        running = 0.0
        for _ in range(args.accumulate):
            images = torch.randn(args.batch_size, 3, args.image_size, args.image_size).cuda()
            labels = torch.randint(0, args.classes, (args.batch_size,)).cuda()
            with torch.autocast("cuda", dtype=torch.bfloat16):
                logits = model(images)
                loss = F.binary_cross_entropy_with_logits(
                    logits, F.one_hot(labels, args.classes).to(logits.dtype)
                )
            (loss / args.accumulate).backward()
            running += loss.item() / args.accumulate
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad(set_to_none=True)
        print(f"step {step} loss {running:.4f} norm {norm:.3f}")


if __name__ == "__main__":
    main()
