"""An MLP-Mixer whose forward and backward are captured as one CUDA graph; SGD runs outside it."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn


class Mixer(nn.Module):
    def __init__(self, tokens, dim):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.tokens = nn.Sequential(
            nn.Linear(tokens, dim // 2), nn.GELU(), nn.Linear(dim // 2, tokens)
        )
        self.channels = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        x = x + self.tokens(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.norm2(x))


class Net(nn.Module):
    def __init__(self, size, patch, dim, depth, classes):
        super().__init__()
        self.patches = nn.Conv2d(3, dim, patch, patch)
        self.layers = nn.Sequential(*[Mixer((size // patch) ** 2, dim) for _ in range(depth)])
        self.head = nn.Linear(dim, classes)

    def forward(self, x):
        return self.head(self.layers(self.patches(x).flatten(2).transpose(1, 2)).mean(1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--patch", type=int, default=8)
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--depth", type=int, default=8)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--eager", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    model = Net(args.size, args.patch, args.dim, args.depth, 100).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    x = torch.randn(args.batch_size, 3, args.size, args.size, device="cuda")
    y = torch.randint(0, 100, (args.batch_size,), device="cuda")

    def forward_backward():
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        return loss

    graph = None
    if not args.eager:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                optimizer.zero_grad(set_to_none=True)
                forward_backward()
        torch.cuda.current_stream().wait_stream(side)
        optimizer.zero_grad(set_to_none=True)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            loss = forward_backward()
    for step in range(args.steps):
        x.copy_(torch.randn(x.shape))
        y.copy_(torch.randint(0, 100, y.shape))
        if graph is None:
            optimizer.zero_grad()
            loss = forward_backward()
        else:
            graph.replay()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        print(step, loss.item())


if __name__ == "__main__":
    main()
