"""Adapters on a frozen transformer whose linear weights are int8, dequantized in each call."""

import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint


class Int8Matmul(torch.autograd.Function):
    """Keeps the codes for backward instead of the dequantized weight."""

    @staticmethod
    def forward(ctx, x, codes, scale):
        ctx.save_for_backward(codes, scale)
        return x @ (codes.to(x.dtype) * scale).t()

    @staticmethod
    def backward(ctx, grad):
        codes, scale = ctx.saved_tensors
        return grad @ (codes.to(grad.dtype) * scale), None, None


class QuantizedLoraLinear(nn.Module):
    def __init__(self, inputs, outputs, rank=8, alpha=16):
        super().__init__()
        weight = torch.randn(outputs, inputs) / math.sqrt(inputs)
        scale = weight.abs().amax(dim=1, keepdim=True) / 127
        self.register_buffer("codes", (weight / scale).round().to(torch.int8))
        self.register_buffer("scale", scale.to(torch.bfloat16))
        self.down = nn.Parameter(torch.randn(rank, inputs) * 0.01)
        self.up = nn.Parameter(torch.zeros(outputs, rank))
        self.factor = alpha / rank

    def forward(self, x):
        base = Int8Matmul.apply(x, self.codes, self.scale)
        return (
            base + F.linear(F.linear(x, self.down.to(x.dtype)), self.up.to(x.dtype)) * self.factor
        )


class Block(nn.Module):
    def __init__(self, width, head_size=128):
        super().__init__()
        self.head_size = head_size
        self.norm1 = nn.RMSNorm(width)
        self.norm2 = nn.RMSNorm(width)
        self.q, self.k, self.v, self.o = (QuantizedLoraLinear(width, width) for _ in range(4))
        self.up = QuantizedLoraLinear(width, 4 * width)
        self.down = QuantizedLoraLinear(4 * width, width)

    def heads(self, x):
        return x.unflatten(-1, (-1, self.head_size)).transpose(1, 2)

    def forward(self, x):
        h = self.norm1(x)
        q, k, v = self.heads(self.q(h)), self.heads(self.k(h)), self.heads(self.v(h))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(y.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Model(nn.Module):
    def __init__(self, vocab, width, layers):
        super().__init__()
        self.embed = nn.Embedding(vocab, width, dtype=torch.bfloat16).requires_grad_(False)
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))
        self.norm = nn.RMSNorm(width)

    def forward(self, ids):
        x = self.embed(ids).requires_grad_()
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return F.linear(self.norm(x).to(torch.bfloat16), self.embed.weight)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--length", type=int, default=768)
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--vocab", type=int, default=32000)
    parser.add_argument("--steps", type=int, default=3)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    with torch.device(device):
        model = Model(args.vocab, args.width, args.layers)
    for norm in [m for m in model.modules() if isinstance(m, nn.RMSNorm)]:
        norm.to(torch.bfloat16).requires_grad_(False)
    adapters = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(adapters, lr=1e-4)
    for step in range(args.steps):
        ids = torch.randint(0, args.vocab, (args.batch_size, args.length), device=device)
        logits = model(ids[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1).float(), ids[:, 1:].flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(adapters, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        print(f"step {step}: loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
