"""Exact Gaussian process regression: Cholesky of the kernel matrix, marginal likelihood."""

import argparse
import math

import torch
from torch import nn


class GaussianProcess(nn.Module):
    def __init__(self, x, y):
        super().__init__()
        self.register_buffer("x", x)
        self.register_buffer("y", y)
        self.log_length = nn.Parameter(torch.zeros(x.size(1)))
        self.log_scale = nn.Parameter(torch.tensor(0.0))
        self.log_noise = nn.Parameter(torch.tensor(-2.0))

    def kernel(self, a, b):
        a, b = a / self.log_length.exp(), b / self.log_length.exp()
        return self.log_scale.exp() * torch.exp(-0.5 * torch.cdist(a, b).square())

    def factor(self):
        eye = torch.eye(len(self.x), device=self.x.device, dtype=self.x.dtype)
        return torch.linalg.cholesky(self.kernel(self.x, self.x) + self.log_noise.exp() * eye)

    def negative_log_likelihood(self):
        lower = self.factor()
        alpha = torch.cholesky_solve(self.y[:, None], lower)
        fit = 0.5 * (self.y[:, None] * alpha).sum()
        determinant = lower.diagonal().log().sum()
        return (fit + determinant + 0.5 * len(self.x) * math.log(2 * math.pi)) / len(self.x)

    @torch.no_grad()
    def predict(self, x):
        lower = self.factor()
        cross = self.kernel(self.x, x)
        mean = cross.t() @ torch.cholesky_solve(self.y[:, None], lower)
        v = torch.linalg.solve_triangular(lower, cross, upper=False)
        variance = self.log_scale.exp() - v.square().sum(0)
        return mean.squeeze(1), variance.clamp(min=0)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--points", type=int, default=6000)
    parser.add_argument("--features", type=int, default=4)
    parser.add_argument("--test-points", type=int, default=2000)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--double", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    dtype = torch.float64 if args.double else torch.float32
    x = torch.rand(args.points, args.features, device=device, dtype=dtype)
    y = torch.sin(6 * x).sum(1) + 0.1 * torch.randn(args.points, device=device, dtype=dtype)
    y = (y - y.mean()) / y.std()
    model = GaussianProcess(x, y).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    for step in range(args.steps):
        optimizer.zero_grad()
        loss = model.negative_log_likelihood()
        loss.backward()
        optimizer.step()
        noise = model.log_noise.exp().item()
        print(f"step {step} negative log likelihood {loss.item():.4f} noise {noise:.3f}")
    test = torch.rand(args.test_points, args.features, device=device, dtype=dtype)
    mean, variance = model.predict(test)
    print(f"mean {mean.mean().item():.4f}, deviation {variance.sqrt().mean().item():.4f}")


if __name__ == "__main__":
    main()
