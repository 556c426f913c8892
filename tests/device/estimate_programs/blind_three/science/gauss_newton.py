"""Fits a network with Gauss-Newton steps: products by jvp and vjp, conjugate gradients, then LM."""

import argparse

import torch
import torch.nn as nn
from torch.func import functional_call, jacrev, jvp, vjp, vmap


def make_net(width_in, hidden):
    return nn.Sequential(
        nn.Linear(width_in, hidden),
        nn.Tanh(),
        nn.Linear(hidden, hidden),
        nn.Tanh(),
        nn.Linear(hidden, 1),
    )


def dot(a, b):
    return sum((a[name] * b[name]).sum() for name in a)


def combine(a, b, scale):
    return {name: a[name] + scale * b[name] for name in a}


def conjugate_gradients(product, right, steps):
    x = {name: torch.zeros_like(value) for name, value in right.items()}
    residual = dict(right)
    direction, size = dict(right), dot(right, right)
    for _ in range(steps):
        turned = product(direction)
        alpha = size / dot(direction, turned)
        x = combine(x, direction, alpha)
        residual = combine(residual, turned, -alpha)
        new_size = dot(residual, residual)
        direction = combine(residual, direction, new_size / size)
        size = new_size
    return x


def gauss_newton(net, params, x, y, damping, steps):
    def residuals(p):
        return functional_call(net, p, (x,)).squeeze(-1) - y

    errors, pull = vjp(residuals, params)
    gradient = pull(errors)[0]

    def product(v):
        _, turned = jvp(residuals, (params,), (v,))
        back = pull(turned)[0]
        return combine(back, v, damping * len(x))

    move = conjugate_gradients(product, gradient, steps)
    return combine(params, move, -1.0), errors.square().mean()


def levenberg_marquardt(net, params, x, y, damping):
    """With the Jacobian itself: all rows by vmap, and a Cholesky solution."""

    def one(p, row):
        return functional_call(net, p, (row.unsqueeze(0),)).squeeze()

    parts = vmap(jacrev(one), in_dims=(None, 0))(params, x)
    jacobian = torch.cat([part.flatten(1) for part in parts.values()], dim=1)
    errors = functional_call(net, params, (x,)).squeeze(-1) - y
    gram = jacobian @ jacobian.T
    gram.diagonal().add_(damping * gram.diagonal().mean())
    factor = torch.linalg.cholesky(gram)
    move = jacobian.T @ torch.cholesky_solve(errors[:, None], factor)
    sizes = [part[0].numel() for part in parts.values()]
    moves = move.squeeze(1).split(sizes)
    new = {name: p - m.view_as(p) for (name, p), m in zip(params.items(), moves)}
    return new, errors.square().mean()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--samples", type=int, default=200_000)
    parser.add_argument("--rows", type=int, default=6000)
    parser.add_argument("--inputs", type=int, default=12)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--iterations", type=int, default=8)
    parser.add_argument("--steps", type=int, default=3)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    x = torch.randn(args.samples, args.inputs, device=device)
    y = torch.sin(x[:, 0] * 2) + x[:, 1] * x[:, 2] + 0.1 * x.square().sum(1).sqrt()
    net = make_net(args.inputs, args.hidden).to(device)
    params = {name: p.detach() for name, p in net.named_parameters()}
    for step in range(args.steps):
        params, loss = gauss_newton(net, params, x, y, 1e-2, args.iterations)
        print(f"Gauss-Newton {step}: {loss.item():.5f}")
    for step in range(args.steps):
        rows = torch.randperm(len(x), device=device)[: args.rows]
        params, loss = levenberg_marquardt(net, params, x[rows], y[rows], 1e-2)
        print(f"Levenberg-Marquardt {step}: {loss.item():.5f}")


if __name__ == "__main__":
    main()
