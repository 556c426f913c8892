"""What the rules ask about tensors."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch

__all__ = [
    "bytes_of",
    "divide_up",
    "fills_its_memory",
    "is_channels_last",
    "is_half",
    "is_on_card",
    "is_packed",
    "round_up",
]


def is_on_card(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.device.type == "cuda" and value.numel() > 0


def bytes_of(tensor: torch.Tensor) -> int:
    return int(tensor.numel() * tensor.element_size())


def divide_up(amount: int, step: int) -> int:
    return -(-amount // step)


def round_up(amount: int, step: int) -> int:
    return divide_up(amount, step) * step


def is_half(tensor: torch.Tensor) -> bool:
    return tensor.dtype in (torch.float16, torch.bfloat16)


def is_channels_last(tensor: torch.Tensor) -> bool:
    """Laid out with the channels last, and not also contiguous."""
    wanted = {4: torch.channels_last, 5: torch.channels_last_3d}.get(tensor.dim())
    return (
        wanted is not None
        and not tensor.is_contiguous()
        and tensor.is_contiguous(memory_format=wanted)
    )


def is_packed(tensor: torch.Tensor) -> bool:
    """Contiguous, or contiguous with the channels last."""
    return tensor.is_contiguous() or is_channels_last(tensor)


def elements(sizes: Iterable[int]) -> int:
    return math.prod(sizes)


def fills_its_memory(tensor: torch.Tensor) -> bool:
    """Whether the elements have neither gaps between them nor any memory in common."""
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape)):
        if size != 1:
            if stride != expected:
                return False
            expected *= size
    return True
