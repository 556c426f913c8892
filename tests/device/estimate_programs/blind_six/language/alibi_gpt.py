"""An own GPT with ALiBi and grouped queries: plain loop, evaluation between steps, weights
kept on the CPU.
"""

import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


def slopes(heads):
    return torch.tensor([2 ** (-8 * (i + 1) / heads) for i in range(heads)])


class Attention(nn.Module):
    def __init__(self, width, heads, groups):
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, width // heads
        self.q = nn.Linear(width, width, bias=False)
        self.kv = nn.Linear(width, 2 * groups * self.size, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x, bias):
        B, T, C = x.shape
        q = self.q(x).view(B, T, self.heads, self.size).transpose(1, 2)
        k, v = self.kv(x).view(B, T, 2, self.groups, self.size).permute(2, 0, 3, 1, 4)
        k = k.repeat_interleave(self.heads // self.groups, dim=1)
        v = v.repeat_interleave(self.heads // self.groups, dim=1)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias.to(q.dtype))
        return self.out(y.transpose(1, 2).reshape(B, T, C))


class Block(nn.Module):
    def __init__(self, width, heads, groups):
        super().__init__()
        self.n1, self.n2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.attention = Attention(width, heads, groups)
        self.gate = nn.Linear(width, 8 * width // 3, bias=False)
        self.up = nn.Linear(width, 8 * width // 3, bias=False)
        self.down = nn.Linear(8 * width // 3, width, bias=False)

    def forward(self, x, bias):
        x = x + self.attention(self.n1(x), bias)
        y = self.n2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class GPT(nn.Module):
    def __init__(self, vocab, length, width, layers):
        super().__init__()
        heads = width // 64
        self.embed = nn.Embedding(vocab, width)
        self.blocks = nn.ModuleList(Block(width, heads, max(heads // 4, 1)) for _ in range(layers))
        self.norm = nn.RMSNorm(width)
        self.head = nn.Linear(width, vocab, bias=False)
        distance = torch.arange(length)[None, :] - torch.arange(length)[:, None]
        bias = slopes(heads)[:, None, None] * distance
        bias = bias.masked_fill(distance > 0, -math.inf)
        self.register_buffer("bias", bias[None], persistent=False)

    def forward(self, ids, targets=None):
        T = ids.shape[1]
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x, self.bias[:, :, :T, :T])
        logits = self.head(self.norm(x))
        if targets is None:
            return logits
        return F.cross_entropy(logits.view(-1, logits.shape[-1]).float(), targets.view(-1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--vocab", type=int, default=32768)
    args = parser.parse_args()
    torch.manual_seed(1337)
    model = GPT(args.vocab, args.length, args.width, args.layers).to("cuda")
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, betas=(0.9, 0.95), foreach=True)
    data = torch.randint(0, args.vocab, (200_000,))

    def batch():
        starts = torch.randint(0, len(data) - args.length - 1, (args.batch_size,))
        x = torch.stack([data[i : i + args.length] for i in starts])
        y = torch.stack([data[i + 1 : i + 1 + args.length] for i in starts])
        return x.to("cuda"), y.to("cuda")

    best = None
    for step in range(5):
        if step % 2 == 0:
            model.eval()
            with torch.no_grad(), torch.autocast("cuda", torch.bfloat16):
                losses = torch.stack([model(*batch()) for _ in range(2)])
            model.train()
            best = {k: v.detach().cpu() for k, v in model.state_dict().items()}
            print("eval", losses.mean().item())
        x, y = batch()
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(x, y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    print(len(best))


if __name__ == "__main__":
    main()
