"""A training step on CPU tensors that is small enough to be host-bound."""

from __future__ import annotations

from typing import Callable

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own custom
from workloads import Gpt


def make_small_training() -> Callable[[], None]:
    """Small enough to be host-bound."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = Gpt(layers=12, width=64, vocabulary=100)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    ids = torch.randint(0, 100, (1, 9))

    def train_step() -> None:
        logits = model(ids[:, :-1])
        F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten()).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return train_step
