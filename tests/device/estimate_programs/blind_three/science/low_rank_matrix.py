"""Linear algebra on large matrices: randomized SVD, whitening, least squares, completion."""

import argparse

import torch


def solve_rows(weight, observed, factor, eye):
    outer = (factor[:, :, None] * factor[:, None, :]).flatten(1)
    gram = (weight @ outer).view(-1, *eye.shape) + eye
    return torch.linalg.solve(gram, (weight * observed) @ factor)


def complete(observed, mask, rank, steps):
    """Alternating least squares for a matrix with unknown entries, solved for all rows at once."""
    right = torch.randn(observed.size(1), rank, device=observed.device)
    eye = 0.1 * torch.eye(rank, device=observed.device)
    weight = mask.to(observed.dtype)
    for _ in range(steps):
        left = solve_rows(weight, observed, right, eye)
        right = solve_rows(weight.T, observed.T, left, eye)
    return left, right


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=30_000)
    parser.add_argument("--columns", type=int, default=6_000)
    parser.add_argument("--rank", type=int, default=32)
    parser.add_argument("--classes", type=int, default=500)
    parser.add_argument("--completed", type=int, default=4_000)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    left = torch.randn(args.rows, args.rank, device=device)
    right = torch.randn(args.rank, args.columns, device=device)
    data = left @ right + 0.1 * torch.randn(args.rows, args.columns, device=device)

    u, s, v = torch.svd_lowrank(data, q=args.rank + 10, niter=3)
    error = (data - u * s @ v.T).norm() / data.norm()
    print(f"low rank: largest {s[0].item():.1f}, relative error {error.item():.4f}")

    centred = data - data.mean(0)
    covariance = centred.T @ centred / (args.rows - 1)
    values, vectors = torch.linalg.eigh(covariance)
    keep = values > 1e-3
    whitening = vectors[:, keep] * values[keep].rsqrt()
    white = centred @ whitening
    print("whitened:", tuple(white.shape), white.var(0).mean().item())

    labels = torch.randint(args.classes, (args.rows,), device=device)
    goals = torch.nn.functional.one_hot(labels, args.classes).float()
    q, r = torch.linalg.qr(white[:, -min(2000, white.size(1)) :])
    weights = torch.linalg.solve_triangular(r, q.T @ goals, upper=True)
    print("least squares:", tuple(weights.shape), weights.norm().item())

    part = data[: args.completed, : args.completed]
    mask = torch.rand(part.shape, device=device) < 0.3
    a, b = complete(part, mask, args.rank, steps=2)
    hidden = (a @ b.T - part)[~mask].square().mean().sqrt()
    sign, log_det = torch.linalg.slogdet(covariance + torch.eye(args.columns, device=device))
    print(f"completion error {hidden.item():.4f}, log determinant {(sign * log_det).item():.1f}")


if __name__ == "__main__":
    main()
