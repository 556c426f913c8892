"""L-BFGS: values decide how many steps it makes, what it keeps of them, and how far it searches.

It ends at once where gradients are small, keeps a step only if the curvature is large enough, and
its line search may evaluate the program again and hold more gradients meanwhile. Here every step is
made and kept, and the first place that is tried is accepted; the band covers the rest.
"""

from __future__ import annotations

import functools
from typing import Any

import torch

from gpumemprof.estimate.engine.device import Device
from gpumemprof.estimate.patches.patcher import Patcher

__all__ = ["install"]

# Gradients that a search holds beside those of the first try: a clone of the one before, and the
# two ends of the bracket.
_MORE_GRADIENTS = 3


def install(patcher: Patcher, device: Device) -> None:
    kind = torch.optim.LBFGS
    step = kind.step

    @functools.wraps(step)
    def doubting_step(optimizer: Any, closure: Any) -> Any:
        is_first = True

        def evaluate() -> Any:
            nonlocal is_first
            searches = optimizer.param_groups[0].get("line_search_fn") is not None
            more = 0 if is_first or not searches else _MORE_GRADIENTS * _flat_bytes(optimizer)
            is_first = False
            with device.assuming(False), device.in_doubt(more_bytes=more):
                return closure()

        device.note(
            "behaviour",
            "L-BFGS was taken to make all of its steps and to keep each; where values are small, a "
            "GPU makes fewer or keeps none",
        )
        with device.assuming():
            return step(optimizer, evaluate)

    patcher.set(kind, "step", doubting_step)


def _flat_bytes(optimizer: Any) -> int:
    return sum(each.numel() * each.element_size() for each in optimizer.param_groups[0]["params"])
