"""MAML: a small convolutional net adapts to each task by differentiable inner steps."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.func import functional_call


def block(inputs, outputs):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1),
        nn.BatchNorm2d(outputs, track_running_stats=False),
        nn.ReLU(),
        nn.MaxPool2d(2),
    )


def adapt(model, params, x, y, steps, lr):
    for _ in range(steps):
        loss = F.cross_entropy(functional_call(model, params, (x,)), y)
        grads = torch.autograd.grad(loss, list(params.values()), create_graph=True)
        params = {n: p - lr * g for (n, p), g in zip(params.items(), grads)}
    return params


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tasks", type=int, default=2)
    parser.add_argument("--ways", type=int, default=5)
    parser.add_argument("--shots", type=int, default=5)
    parser.add_argument("--queries", type=int, default=15)
    parser.add_argument("--size", type=int, default=84)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--inner", type=int, default=5)
    parser.add_argument("--steps", type=int, default=3)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    side = args.size // 16
    model = nn.Sequential(
        block(3, args.width),
        *[block(args.width, args.width) for _ in range(3)],
        nn.Flatten(),
        nn.Linear(args.width * side * side, args.ways),
    ).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(args.steps):
        optimizer.zero_grad()
        right = 0.0
        losses = []
        for _ in range(args.tasks):
            shape = (args.ways * args.shots, 3, args.size, args.size)
            means = torch.randn(args.ways, 3, 1, 1, device=device)
            y = torch.arange(args.ways, device=device).repeat_interleave(args.shots)
            x = torch.randn(shape, device=device) + means[y]
            qy = torch.arange(args.ways, device=device).repeat_interleave(args.queries)
            qx = torch.randn(len(qy), *shape[1:], device=device) + means[qy]
            fast = adapt(model, dict(model.named_parameters()), x, y, args.inner, 0.01)
            out = functional_call(model, fast, (qx,))
            losses.append(F.cross_entropy(out, qy))
            right += (out.argmax(1) == qy).float().mean().item() / args.tasks
        loss = torch.stack(losses).mean()
        loss.backward()
        optimizer.step()
        print(f"step {step}: loss {loss.item():.4f} right {right:.3f}")


if __name__ == "__main__":
    main()
