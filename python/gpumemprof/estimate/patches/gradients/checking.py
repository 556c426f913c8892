"""torch.autograd.gradcheck compares gradients with differences of values, which nobody knows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from gpumemprof.estimate.engine.device import Device
from gpumemprof.estimate.patches.patcher import Patcher

__all__ = ["install"]


def install(patcher: Patcher, device: Device) -> None:
    def check(function: Any, inputs: Any, *_: Any, **__: Any) -> bool:
        device.note(
            "execution", "gradcheck compares values; it was taken to succeed, and called once"
        )
        function(*inputs if isinstance(inputs, Sequence) else (inputs,))
        return True

    for name in ("gradcheck", "gradgradcheck"):
        patcher.set(torch.autograd, name, check)
