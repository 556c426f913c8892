"""A physics-informed network for Burgers' equation: derivatives by autograd, Adam then L-BFGS."""

import argparse
import math

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, width, layers):
        super().__init__()
        sizes = [2, *[width] * layers, 1]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(sizes, sizes[1:]))
        for layer in self.layers:
            nn.init.xavier_normal_(layer.weight)

    def forward(self, x, t):
        h = torch.cat([x, t], dim=1)
        for layer in self.layers[:-1]:
            h = torch.tanh(layer(h))
        return self.layers[-1](h)


def derivative(y, x):
    return torch.autograd.grad(y, x, torch.ones_like(y), create_graph=True)[0]


class Problem:
    def __init__(self, args, device):
        self.x = (torch.rand(args.points, 1, device=device) * 2 - 1).requires_grad_(True)
        self.t = torch.rand(args.points, 1, device=device).requires_grad_(True)
        self.x0 = torch.rand(args.points // 8, 1, device=device) * 2 - 1
        self.u0 = -torch.sin(math.pi * self.x0)
        self.edge = torch.rand(args.points // 8, 1, device=device)
        self.viscosity = 0.01 / math.pi

    def loss(self, net):
        u = net(self.x, self.t)
        u_t, u_x = derivative(u, self.t), derivative(u, self.x)
        residual = u_t + u * u_x - self.viscosity * derivative(u_x, self.x)
        start = net(self.x0, torch.zeros_like(self.x0)) - self.u0
        ones = torch.ones_like(self.edge)
        walls = net(ones, self.edge).square().mean() + net(-ones, self.edge).square().mean()
        return residual.square().mean() + start.square().mean() + walls


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--points", type=int, default=65536)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--steps", type=int, default=3)
    args = parser.parse_args()
    torch.manual_seed(1234)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    net = Net(args.width, args.layers).to(device)
    problem = Problem(args, device)
    adam = torch.optim.Adam(net.parameters(), lr=1e-3)
    for step in range(args.steps):
        adam.zero_grad()
        loss = problem.loss(net)
        loss.backward()
        adam.step()
        print(f"adam {step} loss {loss.item():.5f}")
    lbfgs = torch.optim.LBFGS(
        net.parameters(), max_iter=4, history_size=10, line_search_fn="strong_wolfe"
    )

    def closure():
        lbfgs.zero_grad()
        loss = problem.loss(net)
        loss.backward()
        return loss

    for step in range(2):
        print(f"lbfgs {step} loss {lbfgs.step(closure).item():.5f}")
    with torch.no_grad():
        x = torch.linspace(-1, 1, 101, device=device)[:, None]
        print(f"u(0, 0.5) = {net(x, torch.full_like(x, 0.5))[50].item():.4f}")


if __name__ == "__main__":
    main()
