"""A graphics card, as far as its memory and the choice of kernels depend on it."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Card"]


@dataclass(frozen=True)
class Card:
    name: str  # as torch.cuda.get_device_name() returns it
    capability: tuple[int, int]
    total_bytes: int  # as torch.cuda.get_device_properties() returns it
    multiprocessors: int
    context_bytes: int = 0  # taken by the CUDA context, which the allocator cannot use
