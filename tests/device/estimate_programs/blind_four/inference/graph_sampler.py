"""A diffusion transformer samples with its step captured as a CUDA graph, with guidance."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width, elementwise_affine=False)
        self.norm2 = nn.LayerNorm(width, elementwise_affine=False)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width)
        )
        self.modulate = nn.Linear(width, 6 * width)

    def forward(self, x, c):
        B, T, C = x.shape
        s1, b1, g1, s2, b2, g2 = self.modulate(F.silu(c)).unsqueeze(1).chunk(6, -1)
        h = self.norm1(x) * (1 + s1) + b1
        q, k, v = self.qkv(h).view(B, T, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(B, T, C)
        x = x + g1 * self.proj(y)
        return x + g2 * self.mlp(self.norm2(x) * (1 + s2) + b2)


class Sampler(nn.Module):
    def __init__(self, width, layers, side, classes):
        super().__init__()
        self.embed = nn.Conv2d(4, width, 2, stride=2)
        self.place = nn.Parameter(torch.randn(1, (side // 2) ** 2, width) * 0.02)
        self.label = nn.Embedding(classes + 1, width)
        self.time = nn.Linear(1, width)
        self.layers = nn.ModuleList([Layer(width, width // 64) for _ in range(layers)])
        self.out = nn.Linear(width, 16)

    def forward(self, x, t, labels):
        B, _, H, W = x.shape
        h = self.embed(x).flatten(2).transpose(1, 2) + self.place
        c = self.label(labels) + self.time(t.view(-1, 1))
        for layer in self.layers:
            h = layer(h, c)
        h = self.out(h).view(B, H // 2, W // 2, 2, 2, 4)
        return h.permute(0, 5, 1, 3, 2, 4).reshape(B, 4, H, W)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--side", type=int, default=64)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--sampling", type=int, default=20)
    parser.add_argument("--eager", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(3)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Sampler(args.width, args.layers, args.side, 1000).to(device, torch.bfloat16).eval()
    shape = (args.batch_size, 4, args.side, args.side)
    x = torch.randn(shape, device=device, dtype=torch.bfloat16)
    t = torch.ones(2 * args.batch_size, device=device, dtype=torch.bfloat16)
    labels = torch.randint(1000, (args.batch_size,), device=device)
    both = torch.cat([labels, torch.full_like(labels, 1000)])
    delta = 1.0 / args.sampling

    def step():
        right, free = model(torch.cat([x, x]), t, both).chunk(2)
        x.sub_((free + 4.0 * (right - free)) * delta)
        t.sub_(delta)

    with torch.inference_mode():
        if args.eager:
            replay = step
        else:
            side_stream = torch.cuda.Stream()
            side_stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side_stream):
                for _ in range(3):
                    step()
            torch.cuda.current_stream().wait_stream(side_stream)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                step()
            replay = graph.replay
        x.copy_(torch.randn_like(x))
        t.fill_(1.0)
        for _ in range(args.sampling):
            replay()
        print("sampled", x.float().std().isfinite().item())


if __name__ == "__main__":
    main()
