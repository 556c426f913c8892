"""A physics-informed network for the heat equation: Adam first, then L-BFGS with a line search."""

import argparse

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        layers = [nn.Linear(2, width), nn.Tanh()]
        for _ in range(depth - 1):
            layers += [nn.Linear(width, width), nn.Tanh()]
        self.layers = nn.Sequential(*layers, nn.Linear(width, 1))

    def forward(self, x, t):
        return self.layers(torch.cat([x, t], dim=1))


def gradient(y, x):
    return torch.autograd.grad(y, x, torch.ones_like(y), create_graph=True)[0]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--points", type=int, default=40000)
    parser.add_argument("--borders", type=int, default=4000)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--depth", type=int, default=5)
    parser.add_argument("--adam", type=int, default=5)
    parser.add_argument("--lbfgs", type=int, default=2)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = "cuda"
    net = Net(args.width, args.depth).to(device)
    x = torch.rand(args.points, 1, device=device, requires_grad=True)
    t = torch.rand(args.points, 1, device=device, requires_grad=True)
    x0 = torch.rand(args.borders, 1, device=device)
    t0 = torch.zeros_like(x0)
    xb = torch.randint(0, 2, (args.borders, 1), device=device).float()
    tb = torch.rand(args.borders, 1, device=device)

    def objective():
        u = net(x, t)
        u_x, u_t = gradient(u, x), gradient(u, t)
        inside = (u_t - 0.05 * gradient(u_x, x)).square().mean()
        start = (net(x0, t0) - torch.sin(torch.pi * x0)).square().mean()
        return inside + start + net(xb, tb).square().mean()

    adam = torch.optim.Adam(net.parameters(), lr=1e-3)
    for i in range(args.adam):
        adam.zero_grad()
        loss = objective()
        loss.backward()
        adam.step()
        print(f"adam {i} {loss.item():.5f}")
    lbfgs = torch.optim.LBFGS(
        net.parameters(), max_iter=6, history_size=20, line_search_fn="strong_wolfe"
    )

    def closure():
        lbfgs.zero_grad()
        loss = objective()
        loss.backward()
        return loss

    for i in range(args.lbfgs):
        print(f"lbfgs {i} {lbfgs.step(closure).item():.5f}")


if __name__ == "__main__":
    main()
