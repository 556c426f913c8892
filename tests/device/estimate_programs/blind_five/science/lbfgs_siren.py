"""An image fitted by a network of sines: Adam first, then LBFGS with a strong Wolfe search."""

import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class Sine(nn.Module):
    def __init__(self, c_in, c_out, omega=30.0, first=False):
        super().__init__()
        self.omega = omega
        self.linear = nn.Linear(c_in, c_out)
        bound = 1 / c_in if first else math.sqrt(6 / c_in) / omega
        nn.init.uniform_(self.linear.weight, -bound, bound)

    def forward(self, x):
        return torch.sin(self.omega * self.linear(x))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--side", type=int, default=320)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--adam", type=int, default=5)
    parser.add_argument("--lbfgs", type=int, default=3)
    args = parser.parse_args()
    torch.manual_seed(5)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    layers = [Sine(2, args.width, first=True)]
    layers += [Sine(args.width, args.width) for _ in range(args.layers)]
    model = nn.Sequential(*layers, nn.Linear(args.width, 3)).to(device)
    axis = torch.linspace(-1, 1, args.side, device=device)
    points = torch.stack(torch.meshgrid(axis, axis, indexing="ij"), dim=-1).view(-1, 2)
    x, y = points.unbind(1)
    image = torch.stack((torch.sin(9 * x * y), torch.cos(5 * x), (x * x + y * y).sqrt()), dim=1)
    adam = torch.optim.Adam(model.parameters(), lr=1e-4)
    for _ in range(args.adam):
        loss = F.mse_loss(model(points), image)
        adam.zero_grad()
        loss.backward()
        adam.step()
    print("after Adam", loss.item())
    lbfgs = torch.optim.LBFGS(
        model.parameters(), lr=1.0, max_iter=8, history_size=20, line_search_fn="strong_wolfe"
    )

    def closure():
        lbfgs.zero_grad()
        loss = F.mse_loss(model(points), image)
        loss.backward()
        return loss

    for step in range(args.lbfgs):
        print("LBFGS", step, lbfgs.step(closure).item())
    with torch.no_grad():
        error = F.mse_loss(model(points), image)
    print("PSNR", -10 * math.log10(error.item()))


if __name__ == "__main__":
    main()
