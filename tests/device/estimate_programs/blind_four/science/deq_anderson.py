"""A deep equilibrium model: Anderson's method finds the fixed point and its gradient."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


def anderson(f, x0, memory, iterations, tolerance, mixing=1.0):
    B = len(x0)
    X = torch.zeros(B, memory, x0[0].numel(), device=x0.device)
    G = torch.zeros_like(X)
    X[:, 0], G[:, 0] = x0.view(B, -1), f(x0).view(B, -1)
    X[:, 1], G[:, 1] = G[:, 0], f(G[:, 0].view_as(x0)).view(B, -1)
    H = torch.zeros(B, memory + 1, memory + 1, device=x0.device)
    H[:, 0, 1:] = H[:, 1:, 0] = 1
    y = torch.zeros(B, memory + 1, 1, device=x0.device)
    y[:, 0] = 1
    for k in range(2, iterations):
        n = min(k, memory)
        gap = G[:, :n] - X[:, :n]
        H[:, 1 : n + 1, 1 : n + 1] = torch.bmm(gap, gap.transpose(1, 2)) + 1e-4 * torch.eye(
            n, device=x0.device
        )
        alpha = torch.linalg.solve(H[:, : n + 1, : n + 1], y[:, : n + 1])[:, 1 : n + 1, 0]
        X[:, k % memory] = (
            mixing * (alpha[:, None] @ G[:, :n])[:, 0]
            + (1 - mixing) * (alpha[:, None] @ X[:, :n])[:, 0]
        )
        G[:, k % memory] = f(X[:, k % memory].view_as(x0)).view(B, -1)
        error = (G[:, k % memory] - X[:, k % memory]).norm() / (1e-5 + G[:, k % memory].norm())
        if error.item() < tolerance:
            break
    return X[:, k % memory].view_as(x0), k


class Cell(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.conv1 = nn.Conv2d(width, inner, 3, padding=1, bias=False)
        self.conv2 = nn.Conv2d(inner, width, 3, padding=1, bias=False)
        self.norm1, self.norm2 = nn.GroupNorm(8, inner), nn.GroupNorm(8, width)
        self.norm3 = nn.GroupNorm(8, width)
        for conv in (self.conv1, self.conv2):
            conv.weight.data.normal_(0, 0.01)

    def forward(self, z, x):
        y = self.norm1(F.relu(self.conv1(z)))
        return self.norm3(F.relu(z + self.norm2(x + self.conv2(y))))


class Equilibrium(nn.Module):
    def __init__(self, cell, **solver):
        super().__init__()
        self.cell, self.solver = cell, solver

    def forward(self, x):
        with torch.no_grad():
            z, self.rounds = anderson(lambda z: self.cell(z, x), torch.zeros_like(x), **self.solver)
        z = self.cell(z, x)
        if not self.training:
            return z
        z0 = z.clone().detach().requires_grad_()
        f0 = self.cell(z0, x)

        def backward_hook(grad):
            solved, _ = anderson(
                lambda y: torch.autograd.grad(f0, z0, y, retain_graph=True)[0] + grad,
                grad,
                **self.solver,
            )
            return solved

        z.register_hook(backward_hook)
        return z


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=96)
    parser.add_argument("--size", type=int, default=32)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--tolerance", type=float, default=1e-7)
    parser.add_argument("--steps", type=int, default=3)
    args = parser.parse_args()
    torch.manual_seed(11)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    solver = dict(memory=5, iterations=args.iterations, tolerance=args.tolerance)
    model = nn.Sequential(
        nn.Conv2d(3, args.width, 3, padding=1),
        nn.BatchNorm2d(args.width),
        Equilibrium(Cell(args.width, 2 * args.width), **solver),
        nn.BatchNorm2d(args.width),
        nn.AvgPool2d(8),
        nn.Flatten(),
        nn.LazyLinear(10),
    ).to(device)
    model.eval()
    with torch.no_grad():
        model(torch.zeros(1, 3, args.size, args.size, device=device))
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(args.steps):
        images = torch.randn(args.batch_size, 3, args.size, args.size, device=device)
        labels = torch.randint(10, (args.batch_size,), device=device)
        loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step}: {loss.item():.4f} after {model[2].rounds} rounds")


if __name__ == "__main__":
    main()
