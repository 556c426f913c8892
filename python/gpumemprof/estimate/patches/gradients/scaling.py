"""Gradient scaling: a GPU skips steps of the optimizer until the scaled gradients are finite.

Which steps it skips depends on values. None is skipped here, so the state that an optimizer makes
in its first step may come later on a GPU, or not at all within a few steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.amp.grad_scaler import GradScaler

from gpumemprof.estimate.engine.reading.answers import Answers
from gpumemprof.estimate.patches.patcher import Patcher

__all__ = ["install"]


def install(patcher: Patcher, answers: Answers) -> None:
    step = GradScaler._maybe_opt_step

    def maybe_opt_step(scaler: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        is_first = not optimizer.state
        result = step(scaler, optimizer, *args, **kwargs)
        if is_first:
            answers.doubt_first_scaled_step(_tensors(optimizer.state))
        return result

    patcher.set(GradScaler, "_maybe_opt_step", maybe_opt_step)


def _tensors(state: Any) -> Iterator[torch.Tensor]:
    for of_parameter in state.values():
        if isinstance(of_parameter, dict):
            for value in of_parameter.values():
                if isinstance(value, torch.Tensor):
                    yield value
