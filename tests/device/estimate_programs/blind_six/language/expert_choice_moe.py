"""Experts that choose their tokens (expert-choice routing) in an own transformer; Adam in bf16
autocast.
"""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


class ExpertChoice(nn.Module):
    def __init__(self, width, hidden, experts, factor):
        super().__init__()
        self.router = nn.Linear(width, experts, bias=False)
        self.w1 = nn.Parameter(torch.randn(experts, width, hidden) * width**-0.5)
        self.w2 = nn.Parameter(torch.randn(experts, hidden, width) * hidden**-0.5)
        self.factor = factor

    def forward(self, x):
        shape = x.shape
        tokens = x.reshape(-1, shape[-1])
        scores = self.router(tokens).softmax(dim=-1)
        capacity = int(len(tokens) * self.factor / scores.shape[1])
        weight, index = scores.T.topk(capacity, dim=-1)
        chosen = tokens[index.flatten()].view(*index.shape, -1)
        hidden = F.gelu(torch.bmm(chosen, self.w1.to(chosen.dtype)))
        out = torch.bmm(hidden, self.w2.to(hidden.dtype)) * weight.unsqueeze(-1)
        result = torch.zeros_like(tokens, dtype=out.dtype)
        result.index_add_(0, index.flatten(), out.flatten(0, 1))
        return result.view(shape).to(x.dtype)


class Block(nn.Module):
    def __init__(self, width, experts):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, width // 64, batch_first=True)
        self.feed = ExpertChoice(width, 2 * width, experts, 2.0)

    def forward(self, x, mask):
        y = self.n1(x)
        x = x + self.attention(y, y, y, attn_mask=mask, is_causal=True, need_weights=False)[0]
        return x + self.feed(self.n2(x))


class Model(nn.Module):
    def __init__(self, vocab, length, width, layers, experts):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.place = nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, experts) for _ in range(layers))
        self.head = nn.Linear(width, vocab)
        mask = nn.Transformer.generate_square_subsequent_mask(length)
        self.register_buffer("mask", mask)

    def forward(self, ids):
        x = self.embed(ids) + self.place.weight[: ids.shape[1]]
        for block in self.blocks:
            x = block(x, self.mask)
        return self.head(x)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=12)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--experts", type=int, default=16)
    parser.add_argument("--vocab", type=int, default=16000)
    args = parser.parse_args()
    torch.manual_seed(0)
    model = Model(args.vocab, args.length, args.width, args.layers, args.experts).cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-4)
    for step in range(4):
        ids = torch.randint(args.vocab, (args.batch_size, args.length + 1)).cuda()
        with torch.autocast("cuda", torch.bfloat16):
            logits = model(ids[:, :-1])
            loss = F.cross_entropy(logits.reshape(-1, args.vocab), ids[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item())


if __name__ == "__main__":
    main()
