"""LBFGS with the strong Wolfe search fits a network to a smooth function, full batch."""

import argparse

import torch
from torch import nn


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--points", type=int, default=100_000)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--steps", type=int, default=3)
    args = parser.parse_args()
    torch.manual_seed(0)
    x = torch.rand(args.points, 4, device="cuda") * 2 - 1
    y = torch.sin(3 * x[:, :1]) * x[:, 1:2] + x[:, 2:3] ** 2 - x[:, 3:].cos()
    model = nn.Sequential(
        nn.Linear(4, args.width),
        nn.Tanh(),
        nn.Linear(args.width, args.width),
        nn.Tanh(),
        nn.Linear(args.width, args.width),
        nn.Tanh(),
        nn.Linear(args.width, 1),
    ).cuda()
    optimizer = torch.optim.LBFGS(
        model.parameters(), lr=1.0, max_iter=10, history_size=10, line_search_fn="strong_wolfe"
    )

    def closure():
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        return loss

    for step in range(args.steps):
        loss = optimizer.step(closure)
        print(step, loss.item())


if __name__ == "__main__":
    main()
