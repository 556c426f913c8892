"""What the programs of this corpus share: a small model, batches, and how many steps they run.

LEAKS_DEVICE and LEAKS_STEPS change the device and the number of steps.
"""

from __future__ import annotations

import os

import torch

DEVICE = os.environ.get("LEAKS_DEVICE", "cpu")


def steps(usual: int = 18) -> range:
    return range(int(os.environ.get("LEAKS_STEPS", "0")) or usual)


def model(width: int = 64) -> torch.nn.Sequential:
    return torch.nn.Sequential(
        torch.nn.Linear(width, width), torch.nn.ReLU(), torch.nn.Linear(width, width)
    ).to(DEVICE)


def batch(rows: int = 32, width: int = 64) -> torch.Tensor:
    return torch.randn(rows, width, device=DEVICE)


def sgd(net: torch.nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(net.parameters(), lr=0.01)


def train_step(optimizer: torch.optim.Optimizer, loss: torch.Tensor) -> None:
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
