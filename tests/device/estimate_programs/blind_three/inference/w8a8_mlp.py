"""A transformer with int8 weights and activations, multiplied by torch._int_mm."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


class Int8Linear(nn.Module):
    def __init__(self, linear):
        super().__init__()
        weight = linear.weight.data.float()
        scale = weight.abs().amax(1).clamp(min=1e-8) / 127
        self.register_buffer("weight", (weight / scale[:, None]).round().to(torch.int8))
        self.register_buffer("scale", scale)
        self.bias = linear.bias

    def forward(self, x):
        flat = x.flatten(0, -2)
        row = flat.abs().amax(1, keepdim=True).float().clamp(min=1e-8) / 127
        rounded = (flat / row).round().clamp(-127, 127).to(torch.int8)
        product = torch._int_mm(rounded, self.weight.t())
        y = product.float() * row * self.scale
        if self.bias is not None:
            y = y + self.bias
        return y.to(x.dtype).view(*x.shape[:-1], -1)


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x):
        B, T, D = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(B, T, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v)
        x = x + self.out(y.transpose(1, 2).reshape(B, T, D))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


def quantize(module):
    for name, child in module.named_children():
        if isinstance(child, nn.Linear):
            setattr(module, name, Int8Linear(child))
        else:
            quantize(child)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--dim", type=int, default=2048)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--batches", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.set_grad_enabled(False)
    model, errors = nn.Sequential(), []
    for _ in range(args.layers):
        with device:
            block = Block(args.dim, args.dim // 128).half()
        x = torch.randn(1, 32, args.dim, device=device).half()
        before = block(x).float()
        quantize(block)
        errors.append(((block(x).float() - before).norm() / before.norm()).item())
        model.append(block)
    print("largest relative error of a block:", max(errors))
    for batch in range(args.batches):
        x = torch.randn(args.batch_size, args.length, args.dim, device=device).half()
        print(f"batch {batch}: {model(x).float().std().item():.4f}")


if __name__ == "__main__":
    main()
