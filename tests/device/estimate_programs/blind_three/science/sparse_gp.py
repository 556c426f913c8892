"""A sparse variational Gaussian process with deep kernel features, in double precision."""

import argparse
import math

import torch
import torch.nn as nn


class SVGP(nn.Module):
    def __init__(self, inputs, features, inducing):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(inputs, 512), nn.SiLU(), nn.Linear(512, features), nn.Tanh()
        )
        self.places = nn.Parameter(2 * torch.rand(inducing, features) - 1)
        self.mean = nn.Parameter(torch.zeros(inducing))
        self.factor = nn.Parameter(torch.eye(inducing))
        self.log_length = nn.Parameter(torch.zeros(features))
        self.log_scale = nn.Parameter(torch.zeros(()))
        self.log_noise = nn.Parameter(torch.tensor(-2.0))

    def kernel(self, a, b):
        length = self.log_length.exp()
        distance = torch.cdist(a / length, b / length)
        root = math.sqrt(5) * distance
        matern = (1 + root + root.square() / 3) * torch.exp(-root)
        return self.log_scale.exp() * matern

    def forward(self, x):
        h = self.body(x)
        m = len(self.places)
        eye = torch.eye(m, device=x.device, dtype=x.dtype)
        chol = torch.linalg.cholesky(self.kernel(self.places, self.places) + 1e-5 * eye)
        across = torch.linalg.solve_triangular(chol, self.kernel(self.places, h), upper=False)
        spread = torch.tril(self.factor)
        mean = across.T @ self.mean
        variance = self.log_scale.exp() - across.square().sum(0)
        variance = variance + (spread.T @ across).square().sum(0)
        diagonal = spread.diagonal().abs().clamp(min=1e-8)
        kl = 0.5 * (spread.square().sum() + self.mean.square().sum() - m - 2 * diagonal.log().sum())
        return mean, variance.clamp(min=1e-8), kl

    def loss(self, x, y, total):
        mean, variance, kl = self(x)
        noise = self.log_noise.exp()
        fit = -0.5 * (torch.log(2 * math.pi * noise) + ((y - mean).square() + variance) / noise)
        return -(fit.mean() - kl / total)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--samples", type=int, default=100_000)
    parser.add_argument("--batch-size", type=int, default=12_000)
    parser.add_argument("--inducing", type=int, default=2500)
    parser.add_argument("--inputs", type=int, default=30)
    parser.add_argument("--features", type=int, default=8)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    x = torch.randn(args.samples, args.inputs).to(device)
    y = torch.sin(x[:, :5].sum(1)) + 0.1 * torch.randn(args.samples, device=device)
    model = SVGP(args.inputs, args.features, args.inducing).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for step in range(args.steps):
        rows = torch.randint(args.samples, (args.batch_size,), device=device)
        loss = model.loss(x[rows], y[rows], args.samples)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step}: {loss.item():.4f}")
    with torch.no_grad():
        errors = []
        for part, wanted in zip(x.split(2 * args.batch_size), y.split(2 * args.batch_size)):
            errors.append((model(part)[0] - wanted).square())
        print("mean squared error", torch.cat(errors).mean().item())
        values, vectors = torch.linalg.eigh(model.kernel(model.places, model.places))
        print("largest eigenvalue", values[-1].item(), "vectors", tuple(vectors.shape))


if __name__ == "__main__":
    main()
