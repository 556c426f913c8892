"""A serving loop with a paged key-value cache of its own: requests come, grow and leave."""

import argparse
import random

import torch
import torch.nn as nn
import torch.nn.functional as F

PAGE = 64


class PagedCache:
    """All pages of all layers in one tensor; a request owns a list of page numbers."""

    def __init__(self, layers, pages, heads, size, device, dtype):
        self.data = torch.zeros(layers, 2, pages, PAGE, heads, size, device=device, dtype=dtype)
        self.free = list(range(pages))

    def pages_for(self, tokens):
        return [self.free.pop() for _ in range(-(-tokens // PAGE))]

    def write(self, layer, pages, start, k, v):
        slots = torch.tensor(
            [pages[p // PAGE] * PAGE + p % PAGE for p in range(start, start + len(k))]
        )
        slots = slots.to(k.device)
        self.data[layer, 0].flatten(0, 1).index_copy_(0, slots, k)
        self.data[layer, 1].flatten(0, 1).index_copy_(0, slots, v)

    def read(self, layer, pages, length):
        index = torch.tensor(pages, device=self.data.device)
        k, v = (self.data[layer, i, index].flatten(0, 1)[:length] for i in (0, 1))
        return k.transpose(0, 1), v.transpose(0, 1)


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)

    def forward(self, x, cache, number, request):
        q, k, v = self.qkv(self.norm1(x)).view(len(x), 3, self.heads, -1).unbind(1)
        start = request["length"]
        cache.write(number, request["pages"], start, k, v)
        keys, values = cache.read(number, request["pages"], start + len(x))
        y = F.scaled_dot_product_attention(
            q.transpose(0, 1)[None], keys[None], values[None], is_causal=len(x) > 1
        )
        x = x + self.out(y[0].transpose(0, 1).flatten(1))
        return x + self.down(F.silu(self.up(self.norm2(x))))


class Server:
    def __init__(self, args, device):
        dtype = torch.bfloat16
        heads = args.width // 128 or 1
        self.embed = nn.Embedding(args.vocab, args.width).to(device, dtype)
        self.layers = nn.ModuleList(Layer(args.width, heads) for _ in range(args.layers))
        self.layers.to(device, dtype)
        size = args.width // heads
        self.cache = PagedCache(args.layers, args.pages, heads, size, device, dtype)
        self.device = device

    @torch.inference_mode()
    def step(self, request, ids):
        x = self.embed(torch.tensor(ids, device=self.device))
        for number, layer in enumerate(self.layers):
            x = layer(x, self.cache, number, request)
        request["length"] += len(ids)
        return int(F.linear(x[-1:], self.embed.weight).argmax())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--requests", type=int, default=6)
    parser.add_argument("--prompt", type=int, default=900)
    parser.add_argument("--new-tokens", type=int, default=12)
    parser.add_argument("--pages", type=int, default=512)
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--layers", type=int, default=10)
    parser.add_argument("--vocab", type=int, default=32000)
    args = parser.parse_args()
    random.seed(0)
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    server = Server(args, device)
    waiting = [random.randint(args.prompt // 3, args.prompt) for _ in range(args.requests)]
    running, done = [], 0
    while waiting or running:
        if waiting and len(running) < 4:
            length = waiting.pop()
            request = {"length": 0, "left": args.new_tokens}
            request["pages"] = server.cache.pages_for(length + args.new_tokens)
            prompt = [random.randrange(args.vocab) for _ in range(length)]
            request["token"] = server.step(request, prompt)
            running.append(request)
        for request in list(running):
            request["token"] = server.step(request, [request["token"]])
            request["left"] -= 1
            if request["left"] == 0:
                server.cache.free += request["pages"]
                running.remove(request)
                done += 1
                print(f"request {done} done: {request['length']} tokens, last {request['token']}")


if __name__ == "__main__":
    main()
