"""Denoising inference with a convolutional network captured once as a CUDA graph and replayed."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.inp = nn.Conv2d(4, width, 3, padding=1)
        self.down = nn.Conv2d(width, 2 * width, 4, stride=2, padding=1)
        self.body = nn.ModuleList(
            nn.Sequential(
                nn.GroupNorm(8, 2 * width), nn.SiLU(), nn.Conv2d(2 * width, 2 * width, 3, padding=1)
            )
            for _ in range(depth)
        )
        self.up = nn.ConvTranspose2d(2 * width, width, 4, stride=2, padding=1)
        self.out = nn.Conv2d(width, 3, 3, padding=1)

    def forward(self, x, sigma):
        level = sigma.view(-1, 1, 1, 1).expand(-1, 1, *x.shape[-2:])
        h = F.silu(self.inp(torch.cat((x, level), dim=1)))
        y = self.down(h)
        for block in self.body:
            y = y + block(y)
        return x - self.out(F.silu(h + self.up(y)))


def capture(model, x, sigma):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            model(x, sigma)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = model(x, sigma)
    return graph, y


@torch.no_grad()
def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--width", type=int, default=96)
    parser.add_argument("--depth", type=int, default=8)
    parser.add_argument("--pictures", type=int, default=40)
    parser.add_argument("--eager", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(27)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = Net(args.width, args.depth).to(device).eval()
    x = torch.zeros(args.batch_size, 3, args.size, args.size, device=device)
    sigma = torch.zeros(args.batch_size, device=device)
    if not args.eager:
        graph, y = capture(model, x, sigma)
    results = []
    for _ in range(0, args.pictures, args.batch_size):
        noisy = torch.rand(x.shape) + 0.1 * torch.randn(x.shape)
        x.copy_(noisy, non_blocking=True)
        sigma.fill_(0.1)
        if args.eager:
            y = model(x, sigma)
        else:
            graph.replay()
        results.append(y.clamp(0, 1).mul(255).byte().cpu())
    print(torch.cat(results).float().mean().item())


if __name__ == "__main__":
    main()
