"""The shape of a result, found by running the operation on the CPU with zeros."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._pytree import tree_flatten, tree_map

from gpumemprof.estimate.engine.fake_mode import outside_modes

__all__ = ["shapes_by_running"]

_MOST_ELEMENTS = 1 << 24


def shapes_by_running(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Empty results of the right shape, or NotImplemented if that would be slow or impossible."""
    flat, _ = tree_flatten((args, kwargs))
    fakes = [each for each in flat if isinstance(each, FakeTensor)]
    if not fakes or sum(each.numel() for each in fakes) > _MOST_ELEMENTS:
        return NotImplemented
    device = next((each.device for each in fakes if each.device.type == "cuda"), fakes[0].device)

    def as_zeros(value: Any) -> Any:
        if isinstance(value, FakeTensor):
            return torch.zeros(value.shape, dtype=value.dtype)
        return torch.device("cpu") if isinstance(value, torch.device) else value

    try:
        with outside_modes(), torch.no_grad():
            results = func(*tree_map(as_zeros, args), **tree_map(as_zeros, dict(kwargs)))
            if any(_is_not_strided(each) for each in tree_flatten(results)[0]):
                return NotImplemented
            shapes = tree_map(_described, results)
    except Exception:  # Whatever the kernel objects to: its shape stays unknown.
        return NotImplemented

    def as_fake(value: Any) -> Any:
        if not isinstance(value, _Shape):
            return value
        return torch.empty_strided(value.shape, value.stride, dtype=value.dtype, device=device)

    return tree_map(as_fake, shapes, is_leaf=lambda value: isinstance(value, _Shape))


class _Shape:
    def __init__(self, tensor: torch.Tensor) -> None:
        self.shape = tensor.shape
        self.stride = tensor.stride()
        self.dtype = tensor.dtype


def _is_not_strided(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.layout is not torch.strided


def _described(value: Any) -> Any:
    return _Shape(value) if isinstance(value, torch.Tensor) else value
