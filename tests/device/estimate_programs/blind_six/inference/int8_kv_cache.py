"""Decoding with an own int8 cache: keys and values are quantised by token, dequantised for
attention.
"""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


class Int8Cache:
    def __init__(self, batch, heads, longest, size, device):
        shape = (2, batch, heads, longest)
        self.codes = torch.zeros(*shape, size, dtype=torch.int8, device=device)
        self.scale = torch.zeros(*shape, 1, dtype=torch.float16, device=device)
        self.length = 0

    def update(self, k, v):
        new = torch.stack([k, v])
        scale = new.abs().amax(-1, keepdim=True).clamp(min=1e-4) / 127
        end = self.length + k.shape[2]
        self.codes[:, :, :, self.length : end] = (new / scale).round().to(torch.int8)
        self.scale[:, :, :, self.length : end] = scale
        self.length = end
        return (self.codes[:, :, :, :end].to(k.dtype) * self.scale[:, :, :, :end]).unbind(0)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.n1, self.n2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width, False), nn.Linear(width, width, False)
        self.up, self.down = nn.Linear(width, 4 * width, False), nn.Linear(4 * width, width, False)

    def forward(self, x, cache):
        B, T, C = x.shape
        q, k, v = self.qkv(self.n1(x)).view(B, T, 3, C // 128, 128).permute(2, 0, 3, 1, 4).unbind(0)
        k, v = cache.update(k, v)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=T > 1)
        x = x + self.out(y.transpose(1, 2).reshape(B, T, C))
        return x + self.down(F.silu(self.up(self.n2(x))))


@torch.inference_mode()
def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--prompt", type=int, default=1000)
    parser.add_argument("--new-tokens", type=int, default=48)
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--vocab", type=int, default=32000)
    args = parser.parse_args()
    torch.manual_seed(0)
    embed = nn.Embedding(args.vocab, args.width).cuda().half()
    blocks = nn.ModuleList(Block(args.width) for _ in range(args.layers)).cuda().half()
    longest = args.prompt + args.new_tokens
    caches = [
        Int8Cache(args.batch_size, args.width // 128, longest, 128, embed.weight.device)
        for _ in blocks
    ]
    ids = torch.randint(args.vocab, (args.batch_size, args.prompt), device="cuda")
    written = []
    for _ in range(args.new_tokens):
        x = embed(ids)
        for block, cache in zip(blocks, caches):
            x = block(x, cache)
        ids = (x[:, -1] @ embed.weight.T).argmax(-1, keepdim=True)
        written.append(ids)
    print(torch.cat(written, 1).shape, caches[0].length)


if __name__ == "__main__":
    main()
