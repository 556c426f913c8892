"""Captures a forward pass for each batch size in a CUDA graph and replays it for requests."""

import argparse
import random

import torch
from torch import nn


class Mixer(nn.Module):
    def __init__(self, tokens, width):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.tokens = nn.Sequential(
            nn.Linear(tokens, 2 * tokens), nn.GELU(), nn.Linear(2 * tokens, tokens)
        )
        self.channels = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x):
        x = x + self.tokens(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.norm2(x))


class Graphed:
    """One graph for each batch size; requests are padded up to the next size."""

    def __init__(self, model, sizes, tokens, width):
        self.model, self.graphs, pool = model, {}, None
        for size in sorted(sizes, reverse=True):
            inputs = torch.zeros(size, tokens, width, device="cuda", dtype=torch.float16)
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(2):
                    model(inputs)
            torch.cuda.current_stream().wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=pool):
                outputs = model(inputs)
            pool = graph.pool()
            self.graphs[size] = (graph, inputs, outputs)

    def __call__(self, x):
        size = min(s for s in self.graphs if s >= len(x))
        graph, inputs, outputs = self.graphs[size]
        inputs[: len(x)].copy_(x)
        graph.replay()
        return outputs[: len(x)].clone()


@torch.no_grad()
def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sizes", type=int, nargs="+", default=[8, 16, 32, 64])
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--requests", type=int, default=12)
    parser.add_argument("--eager", action="store_true")
    args = parser.parse_args()
    random.seed(1)
    torch.manual_seed(1)
    blocks = [Mixer(args.tokens, args.width) for _ in range(args.layers)]
    model = nn.Sequential(*blocks, nn.LayerNorm(args.width)).cuda().half().eval()
    run = model if args.eager else Graphed(model, args.sizes, args.tokens, args.width)
    for number in range(args.requests):
        count = random.randint(1, max(args.sizes))
        x = torch.randn(count, args.tokens, args.width).half().cuda()
        y = run(x).mean(dim=1)
        torch.cuda.synchronize()
        print(f"request {number}: {count} inputs, norm {y.float().norm().item():.3f}")


if __name__ == "__main__":
    main()
