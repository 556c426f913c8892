"""Decoding with one CUDA graph for each batch size: the graphs share a memory pool and write to one
cache of keys and values; a request runs in the smallest size that holds it.
"""

import argparse
import math
import random

import torch
import torch.nn.functional as F
from torch import nn


class Attention(nn.Module):
    def __init__(self, dim, heads, slots, longest, device, dtype):
        super().__init__()
        self.heads, self.size = heads, dim // heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)
        shape = (slots, heads, longest, self.size)
        self.register_buffer("keys", torch.zeros(shape, device=device, dtype=dtype), False)
        self.register_buffer("values", torch.zeros(shape, device=device, dtype=dtype), False)

    def forward(self, x, place, mask):
        B, T, C = x.shape
        q, k, v = self.qkv(x).view(B, T, 3, self.heads, self.size).permute(2, 0, 3, 1, 4)
        self.keys[:B].index_copy_(2, place, k)
        self.values[:B].index_copy_(2, place, v)
        y = F.scaled_dot_product_attention(q, self.keys[:B], self.values[:B], attn_mask=mask)
        return self.out(y.transpose(1, 2).reshape(B, T, C))


class Layer(nn.Module):
    def __init__(self, dim, *cache):
        super().__init__()
        self.first, self.second = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attention = Attention(dim, *cache)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x, place, mask):
        x = x + self.attention(self.first(x), place, mask)
        return x + self.mlp(self.second(x))


class Decoder(nn.Module):
    def __init__(self, vocab, dim, layers, heads, slots, longest, device, dtype):
        super().__init__()
        self.tokens = nn.Embedding(vocab, dim)
        self.places = nn.Embedding(longest, dim)
        self.layers = nn.ModuleList(
            Layer(dim, heads, slots, longest, device, dtype) for _ in range(layers)
        )
        self.norm = nn.LayerNorm(dim)
        self.register_buffer("columns", torch.arange(longest), False)
        for p in self.parameters():
            if p.ndim == 2:
                nn.init.normal_(p, std=0.02 / math.sqrt(2))

    def forward(self, ids, place):
        x = self.tokens(ids) + self.places(place)
        mask = self.columns[None, :] <= place[:, None]
        for layer in self.layers:
            x = layer(x, place, mask)
        return self.norm(x[:, -1]) @ self.tokens.weight.t()


class Step:
    """One token for a fixed batch size; the next token and place are written in the graph."""

    def __init__(self, model, batch, device):
        self.model = model
        self.ids = torch.zeros(batch, 1, dtype=torch.long, device=device)
        self.place = torch.zeros(1, dtype=torch.long, device=device)
        self.graph = None

    def run_eager(self):
        logits = self.model(self.ids, self.place)
        self.ids.copy_(logits.argmax(-1, keepdim=True))
        self.place.add_(1)

    def capture(self, pool):
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(2):
                self.run_eager()
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, pool=pool):
            self.run_eager()

    def run(self):
        if self.graph is None:
            self.run_eager()
        else:
            self.graph.replay()


@torch.no_grad()
def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--buckets", type=int, nargs="+", default=[1, 2, 4, 8, 16, 32])
    parser.add_argument("--longest", type=int, default=1024)
    parser.add_argument("--new-tokens", type=int, default=64)
    parser.add_argument("--requests", type=int, default=6)
    parser.add_argument("--dim", type=int, default=1280)
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--heads", type=int, default=20)
    parser.add_argument("--vocab", type=int, default=50000)
    parser.add_argument("--eager", action="store_true")
    args = parser.parse_args()

    torch.manual_seed(0)
    rng = random.Random(0)
    dtype = torch.float16 if args.device == "cuda" else torch.float32
    buckets = sorted(args.buckets)
    model = Decoder(
        args.vocab,
        args.dim,
        args.layers,
        args.heads,
        buckets[-1],
        args.longest,
        args.device,
        dtype,
    )
    model = model.to(args.device, dtype).eval()

    steps = {batch: Step(model, batch, args.device) for batch in buckets}
    if not args.eager:
        pool = torch.cuda.graph_pool_handle()
        for batch in reversed(buckets):
            steps[batch].capture(pool)
        print(f"captured {len(steps)} graphs")

    for number in range(args.requests):
        count = rng.randint(1, buckets[-1])
        batch = next(size for size in buckets if size >= count)
        length = rng.randint(args.longest // 4, args.longest - args.new_tokens)
        prompts = torch.randint(0, args.vocab, (batch, length), device=args.device)
        logits = model(prompts, torch.arange(length, device=args.device))
        step = steps[batch]
        step.ids.copy_(logits.argmax(-1, keepdim=True))
        step.place.fill_(length)
        answer = [step.ids.clone()]
        for _ in range(args.new_tokens - 1):
            step.run()
            answer.append(step.ids.clone())
        tokens = torch.cat(answer, 1)[:count].cpu()
        print(f"request {number}: {count} prompts of {length} in size {batch}, {tokens.shape}")


if __name__ == "__main__":
    main()
