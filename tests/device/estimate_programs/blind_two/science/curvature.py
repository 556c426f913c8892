"""Fits a network with L-BFGS on the full batch, then finds the Hessian's top eigenvalues."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


def make_model(channels, classes):
    return nn.Sequential(
        nn.Conv2d(1, channels, 5, stride=2, padding=2),
        nn.Tanh(),
        nn.Conv2d(channels, 2 * channels, 3, stride=2, padding=1),
        nn.Tanh(),
        nn.Conv2d(2 * channels, 2 * channels, 3, padding=1),
        nn.Softplus(),
        nn.Flatten(),
        nn.Linear(2 * channels * 49, 256),
        nn.Tanh(),
        nn.Linear(256, classes),
    )


def flatten(tensors):
    return torch.cat([t.reshape(-1) for t in tensors])


def hessian_vector(model, x, y, vector, chunk):
    """The product of the Hessian of the mean loss with a vector, over parts of the data."""
    params = list(model.parameters())
    result = torch.zeros_like(vector)
    for xs, ys in zip(x.split(chunk), y.split(chunk)):
        loss = F.cross_entropy(model(xs), ys, reduction="sum") / len(x)
        grads = torch.autograd.grad(loss, params, create_graph=True)
        dot = flatten(grads).dot(vector)
        result += flatten(torch.autograd.grad(dot, params))
    return result


def lanczos(product, size, steps, device):
    q = torch.randn(size, device=device)
    q /= q.norm()
    basis, alphas, betas = [q], [], []
    for i in range(steps):
        w = product(basis[-1])
        alpha = w.dot(basis[-1])
        alphas.append(alpha.item())
        w = w - alpha * basis[-1]
        if i:
            w = w - betas[-1] * basis[-2]
        for b in basis:  # full reorthogonalization
            w = w - w.dot(b) * b
        beta = w.norm().item()
        betas.append(beta)
        basis.append(w / beta)
    T = torch.diag(torch.tensor(alphas))
    off = torch.tensor(betas[: steps - 1])
    T = T + torch.diag(off, 1) + torch.diag(off, -1)
    return torch.linalg.eigvalsh(T)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--samples", type=int, default=20000)
    parser.add_argument("--channels", type=int, default=32)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--fits", type=int, default=3)
    parser.add_argument("--lanczos", type=int, default=5)
    parser.add_argument("--chunk", type=int, default=8000)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    y = torch.randint(0, args.classes, (args.samples,))
    prototypes = torch.randn(args.classes, 1, 28, 28)
    x = prototypes[y] + torch.randn(args.samples, 1, 28, 28)
    x, y = x.to(device), y.to(device)
    model = make_model(args.channels, args.classes).to(device)

    optimizer = torch.optim.LBFGS(
        model.parameters(), lr=1, max_iter=4, history_size=10, line_search_fn="strong_wolfe"
    )
    calls = 0

    def closure():
        nonlocal calls
        calls += 1
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        for p in model.parameters():
            loss = loss + 1e-4 * p.pow(2).sum()
        loss.backward()
        return loss

    for i in range(args.fits):
        loss = optimizer.step(closure)
        with torch.no_grad():
            accuracy = (model(x).argmax(1) == y).float().mean()
        print(f"fit {i}: loss {loss.item():.4f}, accuracy {accuracy.item():.3f}, calls {calls}")

    size = sum(p.numel() for p in model.parameters())
    spectrum = lanczos(
        lambda v: hessian_vector(model, x, y, v, args.chunk), size, args.lanczos, device
    )
    print("largest eigenvalues:", [round(v, 4) for v in spectrum.flip(0)[:3].tolist()])


if __name__ == "__main__":
    main()
