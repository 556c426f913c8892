"""A small ViT whose whole training step (forward, backward, capturable AdamW) is one CUDA graph."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn


class ViT(nn.Module):
    def __init__(self, size, patch, dim, depth, heads, classes):
        super().__init__()
        self.embed = nn.Conv2d(3, dim, patch, patch)
        self.cls = nn.Parameter(torch.zeros(1, 1, dim))
        self.places = nn.Parameter(torch.randn(1, (size // patch) ** 2 + 1, dim) * 0.02)
        layer = nn.TransformerEncoderLayer(
            dim, heads, 4 * dim, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.blocks = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, classes))

    def forward(self, x):
        x = self.embed(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], dim=1) + self.places
        return self.head(self.blocks(x)[:, 0])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--size", type=int, default=96)
    parser.add_argument("--patch", type=int, default=8)
    parser.add_argument("--dim", type=int, default=384)
    parser.add_argument("--depth", type=int, default=8)
    parser.add_argument("--heads", type=int, default=6)
    parser.add_argument("--classes", type=int, default=100)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--eager", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    device = "cuda"
    model = ViT(args.size, args.patch, args.dim, args.depth, args.heads, args.classes).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, capturable=not args.eager)
    images = torch.randn(args.batch_size, 3, args.size, args.size, device=device)
    labels = torch.randint(0, args.classes, (args.batch_size,), device=device)

    def step():
        with torch.autocast("cuda", dtype=torch.bfloat16, cache_enabled=False):
            loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        return loss

    graph = None
    if not args.eager:
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                optimizer.zero_grad(set_to_none=True)
                step()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        optimizer.zero_grad(set_to_none=True)
        with torch.cuda.graph(graph):
            static_loss = step()

    for number in range(args.steps):
        images.copy_(torch.randn(args.batch_size, 3, args.size, args.size))
        labels.copy_(torch.randint(0, args.classes, (args.batch_size,)))
        if graph is None:
            optimizer.zero_grad(set_to_none=True)
            static_loss = step()
        else:
            graph.replay()
        print(f"step {number} loss {static_loss.item():.4f}")


if __name__ == "__main__":
    main()
