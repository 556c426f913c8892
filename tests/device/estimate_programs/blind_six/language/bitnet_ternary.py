"""Ternary weights and 8-bit activations trained with a straight-through estimator, as in BitNet."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


def ternary(weight):
    scale = weight.abs().mean().clamp(min=1e-5)
    rounded = (weight / scale).round().clamp(-1, 1) * scale
    return weight + (rounded - weight).detach()


def eight_bits(x):
    scale = 127.0 / x.abs().amax(dim=-1, keepdim=True).clamp(min=1e-5)
    rounded = (x * scale).round().clamp(-128, 127) / scale
    return x + (rounded - x).detach()


class BitLinear(nn.Linear):
    def forward(self, x):
        x = F.rms_norm(x, x.shape[-1:])
        return F.linear(eight_bits(x), ternary(self.weight), self.bias)


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = BitLinear(width, 3 * width, bias=False)
        self.out = BitLinear(width, width, bias=False)
        self.up = BitLinear(width, 4 * width, bias=False)
        self.down = BitLinear(4 * width, width, bias=False)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.qkv(x).view(B, T, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(B, T, C))
        return x + self.down(F.relu(self.up(x)).square())


class Model(nn.Module):
    def __init__(self, vocab, width, layers):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.layers = nn.ModuleList(Layer(width, width // 64) for _ in range(layers))
        self.head = nn.Linear(width, vocab, bias=False)

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(F.rms_norm(x, x.shape[-1:]))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--vocab", type=int, default=32000)
    args = parser.parse_args()
    torch.manual_seed(0)
    model = Model(args.vocab, args.width, args.layers).cuda().bfloat16()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(4):
        ids = torch.randint(0, args.vocab, (args.batch_size, args.length + 1), device="cuda")
        logits = model(ids[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1).float(), ids[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(step, loss.item())
    packed = {
        name: (p / p.abs().mean()).round().clamp(-1, 1).to(torch.int8)
        for name, p in model.named_parameters()
        if "layers" in name
    }
    print(sum(p.numel() for p in packed.values()))


if __name__ == "__main__":
    main()
