"""F.linear: a bias is added in place where the input is not contiguous, but never for subclasses.

A fake tensor is a subclass, so that torch would make another tensor for the sum.
"""

from __future__ import annotations

import torch
from torch._subclasses.fake_tensor import FakeTensor

from gpumemprof.estimate.engine.device import Device
from gpumemprof.estimate.patches.patcher import Patcher

__all__ = ["install"]


def install(patcher: Patcher, device: Device) -> None:
    real = torch.nn.functional.linear

    def linear(
        input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None
    ) -> torch.Tensor:
        # A compiler that traces this must find torch's own function.
        if bias is None or torch.compiler.is_compiling() or not _is_multiplied_first(input):
            return real(input, weight, bias)
        with device.adding_in_place():
            return real(input, weight, bias)

    patcher.set(torch.nn.functional, "linear", linear)


def _is_multiplied_first(tensor: torch.Tensor) -> bool:
    """Whether it is no single kernel that multiplies and adds."""
    return (
        isinstance(tensor, FakeTensor)
        and tensor.fake_device.type == "cuda"
        and tensor.dim() != 2  # noqa: PLR2004: a matrix
        and not tensor.is_contiguous()
    )
