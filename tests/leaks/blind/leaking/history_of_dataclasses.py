"""An immutable history: each state refers to the one before it."""

from __future__ import annotations

import dataclasses

import torch
from parts import batch, model, sgd, steps, train_step

EXPECTED = {"verdict": "leak", "holder": "before"}


@dataclasses.dataclass(frozen=True)
class State:
    logits: torch.Tensor
    before: State | None


net = model()
optimizer = sgd(net)
state = None
for _ in steps():
    output = net(batch())
    train_step(optimizer, output.square().mean())
    state = State(output.detach().float().neg(), state)  # leaks
