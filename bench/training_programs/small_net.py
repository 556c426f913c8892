"""The model, batches and loop that most programs share."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from .reporter import Reporter

WORDS, WIDTH, BATCH = 200, 128, 32


class Net(nn.Module):
    def __init__(self, width: int = WIDTH, layers: int = 3, norm: Any = nn.BatchNorm1d) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, width)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
            for _ in range(layers)
        )
        self.norm = norm(width)
        self.head = nn.Linear(width, WORDS, bias=False)

    def forward(self, ids: Any) -> Any:
        x = self.embed(ids)
        for block in self.blocks:
            x = x + block(x)
        return self.head(self.norm(x))


def batch() -> tuple[Any, Any]:
    return torch.randint(0, WORDS, (BATCH,)), torch.randint(0, WORDS, (BATCH,))


def train(
    report: Reporter,
    model: Any,
    optimizer: Any,
    steps: int = 3,
    forward: Any = None,
) -> None:
    """The simplest loop; reports after backward, after the step and after zeroing."""
    models = [model]
    for _ in range(steps):
        ids, labels = batch()
        loss = cross_entropy((model if forward is None else forward)(ids), labels)
        loss.backward()
        report(models, [optimizer], [ids, labels])
        optimizer.step()
        report(models, [optimizer], [ids, labels])
        optimizer.zero_grad()
        report(models, [optimizer], [ids, labels])
