"""A whole training step in one CUDA graph: forward, backward and a capturable AdamW, static
inputs.
"""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


class Mixer(nn.Module):
    def __init__(self, tokens, width):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.tokens = nn.Sequential(
            nn.Linear(tokens, 2 * tokens), nn.GELU(), nn.Linear(2 * tokens, tokens)
        )
        self.channels = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x):
        x = x + self.tokens(self.n1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.n2(x))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=96)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--eager", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    tokens = (args.size // 16) ** 2
    model = nn.Sequential(
        nn.Conv2d(3, args.width, 16, 16),
        nn.Flatten(2),
        nn.Unflatten(1, (args.width,)),
    )
    body = nn.Sequential(*[Mixer(tokens, args.width) for _ in range(args.layers)]).cuda()
    model.cuda()
    head = nn.Linear(args.width, 1000).cuda()
    params = [*model.parameters(), *body.parameters(), *head.parameters()]
    optimizer = torch.optim.AdamW(params, lr=1e-3, capturable=not args.eager)
    x = torch.randn(args.batch_size, 3, args.size, args.size, device="cuda")
    y = torch.randint(0, 1000, (args.batch_size,), device="cuda")

    def step():
        with torch.autocast("cuda", torch.bfloat16, cache_enabled=False):
            h = body(model(x).transpose(1, 2)).mean(1)
            loss = F.cross_entropy(head(h), y)
        loss.backward()
        optimizer.step()
        return loss

    if args.eager:
        for _ in range(3):
            optimizer.zero_grad(set_to_none=True)
            print(step().item())
        return
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            optimizer.zero_grad(set_to_none=True)
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    optimizer.zero_grad(set_to_none=True)
    with torch.cuda.graph(graph):
        loss = step()
    for _ in range(6):
        x.copy_(torch.randn(args.batch_size, 3, args.size, args.size))
        y.copy_(torch.randint(0, 1000, (args.batch_size,)))
        graph.replay()
    torch.cuda.synchronize()
    print(loss.item())


if __name__ == "__main__":
    main()
