"""QLoRA by hand: 4-bit weights in blocks, dequantised in an autograd Function."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

LEVELS = torch.erfinv(torch.linspace(-0.97, 0.97, 16)) * 2**0.5


def quantise(weight, block, levels):
    flat = weight.float().reshape(-1, block)
    scale = flat.abs().amax(1, keepdim=True).clamp_min(1e-8)
    codes = torch.bucketize(flat / scale, (levels[1:] + levels[:-1]) / 2).to(torch.uint8)
    codes = codes.view(-1, 2)
    return codes[:, 0] * 16 + codes[:, 1], scale.half()


def dequantise(packed, scale, levels, shape):
    codes = torch.stack((packed >> 4, packed & 15), dim=1)
    values = levels[codes.view(-1, scale_block(packed, scale)).int()]
    return (values * scale).to(torch.bfloat16).view(shape)


def scale_block(packed, scale):
    return 2 * packed.numel() // scale.numel()


class FourBitProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, packed, scale, levels, shape):
        ctx.save_for_backward(packed, scale, levels)
        ctx.shape = shape
        return x @ dequantise(packed, scale, levels, shape).t()

    @staticmethod
    def backward(ctx, grad):
        packed, scale, levels = ctx.saved_tensors
        return grad @ dequantise(packed, scale, levels, ctx.shape), None, None, None, None


class FourBitLora(nn.Module):
    def __init__(self, inputs, outputs, rank, device, block=64):
        super().__init__()
        weight = torch.randn(outputs, inputs, device=device) * inputs**-0.5
        levels = (LEVELS / LEVELS.abs().max()).to(device)
        packed, scale = quantise(weight, block, levels)
        self.register_buffer("packed", packed)
        self.register_buffer("scale", scale)
        self.register_buffer("levels", levels)
        self.shape = (outputs, inputs)
        self.a = nn.Parameter(torch.randn(rank, inputs, device=device) * inputs**-0.5)
        self.b = nn.Parameter(torch.zeros(outputs, rank, device=device))

    def forward(self, x):
        base = FourBitProduct.apply(x, self.packed, self.scale, self.levels, self.shape)
        return base + F.linear(F.linear(x, self.a.to(x.dtype)), self.b.to(x.dtype))


class Block(nn.Module):
    def __init__(self, width, heads, rank, device):
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList([nn.RMSNorm(width, device=device) for _ in range(2)])
        self.qkv = FourBitLora(width, 3 * width, rank, device)
        self.proj = FourBitLora(width, width, rank, device)
        self.up = FourBitLora(width, 4 * width, rank, device)
        self.down = FourBitLora(4 * width, width, rank, device)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.qkv(self.norms[0](x).to(x.dtype)).view(B, T, 3, self.heads, -1).unbind(2)
        y = F.scaled_dot_product_attention(
            q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True
        )
        x = x + self.proj(y.transpose(1, 2).reshape(B, T, C))
        return x + self.down(F.gelu(self.up(self.norms[1](x).to(x.dtype))))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--width", type=int, default=3072)
    parser.add_argument("--layers", type=int, default=10)
    parser.add_argument("--vocab", type=int, default=32000)
    parser.add_argument("--rank", type=int, default=32)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    embed = nn.Embedding(args.vocab, args.width, device=device, dtype=torch.bfloat16)
    embed.weight.requires_grad_(False)
    blocks = nn.ModuleList(
        [Block(args.width, args.width // 128, args.rank, device) for _ in range(args.layers)]
    )
    trained = [p for p in blocks.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=2e-4, foreach=False)
    for step in range(args.steps):
        ids = torch.randint(args.vocab, (args.batch_size, args.length + 1), device=device)
        x = embed(ids[:, :-1]).requires_grad_()
        for block in blocks:
            x = checkpoint(block, x, use_reentrant=True)
        logits = F.linear(x, embed.weight)
        loss = F.cross_entropy(logits.view(-1, args.vocab).float(), ids[:, 1:].reshape(-1))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"step {step}: {loss.item():.3f}")


if __name__ == "__main__":
    main()
