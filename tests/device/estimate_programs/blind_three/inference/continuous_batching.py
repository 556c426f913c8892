"""A server that decodes requests of different lengths together; finished ones make room for new."""

import argparse
import random
from collections import deque

import torch
import torch.nn as nn
import torch.nn.functional as F


class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.feed = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def project(self, x):
        B, T, _ = x.shape
        return self.qkv(self.norm1(x)).view(B, T, 3, self.heads, -1).permute(2, 0, 3, 1, 4)

    def finish(self, x, y):
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return x + self.feed(self.norm2(x))


class Request:
    def __init__(self, number, prompt, wanted):
        self.number, self.prompt, self.wanted = number, prompt, wanted
        self.tokens, self.cache = [], None


class Server:
    def __init__(self, args, device, dtype):
        with device:
            self.embed = nn.Embedding(args.vocab, args.dim).to(dtype)
            self.layers = nn.ModuleList(
                Layer(args.dim, args.dim // 64) for _ in range(args.layers)
            ).to(dtype)
        self.device = device

    def choose(self, x):
        return F.linear(x, self.embed.weight).argmax(-1)

    def prefill(self, request):
        x = self.embed(torch.tensor([request.prompt], device=self.device))
        request.cache = []
        for layer in self.layers:
            q, k, v = layer.project(x)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = layer.finish(x, y)
            request.cache.append((k[0], v[0]))
        request.tokens.append(self.choose(x[0, -1]).item())

    def decode(self, running):
        """One token for all: caches are padded to the longest, and each grows by a column."""
        last = torch.tensor([[r.tokens[-1]] for r in running], device=self.device)
        lengths = torch.tensor([r.cache[0][0].size(1) for r in running], device=self.device)
        longest = int(lengths.max())
        places = torch.arange(longest + 1, device=self.device)
        mask = (places < lengths[:, None]) | (places == longest)
        x = self.embed(last)
        for i, layer in enumerate(self.layers):
            q, k, v = layer.project(x)
            keys = [
                F.pad(r.cache[i][0], (0, 0, 0, longest - r.cache[i][0].size(1))) for r in running
            ]
            values = [
                F.pad(r.cache[i][1], (0, 0, 0, longest - r.cache[i][1].size(1))) for r in running
            ]
            keys = torch.cat([torch.stack(keys), k], dim=2)
            values = torch.cat([torch.stack(values), v], dim=2)
            y = F.scaled_dot_product_attention(q, keys, values, attn_mask=mask[:, None, None])
            x = layer.finish(x, y)
            for row, r in enumerate(running):
                old_k, old_v = r.cache[i]
                r.cache[i] = (torch.cat([old_k, k[row]], 1), torch.cat([old_v, v[row]], 1))
        for r, token in zip(running, self.choose(x[:, -1]).tolist()):
            r.tokens.append(token)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--requests", type=int, default=40)
    parser.add_argument("--together", type=int, default=16)
    parser.add_argument("--longest-prompt", type=int, default=1200)
    parser.add_argument("--longest-reply", type=int, default=24)
    parser.add_argument("--dim", type=int, default=2048)
    parser.add_argument("--layers", type=int, default=10)
    parser.add_argument("--vocab", type=int, default=50000)
    args = parser.parse_args()
    torch.manual_seed(0)
    rng = random.Random(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    server = Server(args, device, torch.bfloat16)
    waiting = deque()
    for number in range(args.requests):
        length = rng.randint(args.longest_prompt // 10, args.longest_prompt)
        prompt = [rng.randrange(args.vocab) for _ in range(length)]
        waiting.append(Request(number, prompt, rng.randint(4, args.longest_reply)))
    running, steps = [], 0
    with torch.no_grad():
        while waiting or running:
            while waiting and len(running) < args.together:
                request = waiting.popleft()
                server.prefill(request)
                running.append(request)
            server.decode(running)
            steps += 1
            for request in [r for r in running if len(r.tokens) >= r.wanted]:
                running.remove(request)
                request.cache = None
                print(f"request {request.number}: {len(request.tokens)} tokens")
    print(f"{steps} steps")


if __name__ == "__main__":
    main()
