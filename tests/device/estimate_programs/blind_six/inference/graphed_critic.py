"""Many small networks replayed from CUDA graphs that share one pool, one graph for each batch
size.
"""

import argparse

import torch
import torch.nn as nn


class Critics(nn.Module):
    def __init__(self, state, width, count):
        super().__init__()
        self.encode = nn.Sequential(
            nn.Conv2d(state, width // 8, 8, 4),
            nn.ReLU(),
            nn.Conv2d(width // 8, width // 4, 4, 2),
            nn.ReLU(),
        )
        self.flat = nn.LazyLinear(width)
        self.heads = nn.ModuleList(
            nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 51))
            for _ in range(count)
        )

    def forward(self, x):
        h = self.flat(self.encode(x.float() / 255).flatten(1)).relu()
        return torch.stack([head(h).softmax(-1) for head in self.heads])


@torch.no_grad()
def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sizes", type=int, nargs="+", default=[512, 256, 64, 8])
    parser.add_argument("--pixels", type=int, default=128)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--count", type=int, default=12)
    parser.add_argument("--eager", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    model = Critics(4, args.width, args.count).to("cuda")
    frames = torch.randint(
        0, 256, (max(args.sizes), 4, args.pixels, args.pixels), dtype=torch.uint8
    )
    model(frames[:2].to("cuda"))
    if args.eager:
        for size in args.sizes:
            print(model(frames[:size]).shape)
        return
    pool = torch.cuda.graph_pool_handle()
    graphs = {}
    for size in args.sizes:
        static = torch.zeros(size, 4, args.pixels, args.pixels, dtype=torch.uint8, device="cuda")
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(2):
                model(static)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool):
            out = model(static)
        graphs[size] = graph, static, out
    values = []
    for size in [8, 64, 512, 256, 8, 512]:
        graph, static, out = graphs[size]
        static.copy_(frames[:size])
        graph.replay()
        values.append(out.mean(0).clone())
    print([tuple(v.shape) for v in values], torch.cuda.memory_reserved() > 0)


if __name__ == "__main__":
    main()
