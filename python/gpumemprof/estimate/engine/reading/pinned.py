"""Which tensors a program has pinned: programs ask, though nothing is pinned in an estimate."""

from __future__ import annotations

import weakref
from typing import Any

import torch

__all__ = ["is_pinned", "pin"]

_pinned: dict[int, weakref.ref[Any]] = {}  # by storage


def pin(tensor: Any) -> Any:
    """The tensor itself: pinned memory is host memory, which is not predicted."""
    if isinstance(tensor, torch.Tensor) and tensor.layout is torch.strided:
        storage = tensor.untyped_storage()
        key = storage._cdata

        def died(_: Any, key: int = key) -> None:
            _pinned.pop(key, None)

        _pinned[key] = weakref.ref(storage, died)
    return tensor


def is_pinned(tensor: torch.Tensor) -> bool:
    """Whether the tensor, or what it is a view of, was pinned."""
    if not _pinned or tensor.layout is not torch.strided:
        return False
    return tensor.untyped_storage()._cdata in _pinned
