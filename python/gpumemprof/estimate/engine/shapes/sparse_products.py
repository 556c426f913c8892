"""Sparse COO tensors where torch has no shape function: moved, made dense, multiplied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

__all__ = ["sparse_shapes"]

_PRODUCTS = {"mm": 1, "addmm": 2, "_sparse_addmm": 2}  # with the place of the dense factor


def sparse_shapes(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The result of an operation on such a tensor; NotImplemented if it is none of these."""
    tensor = args[1] if name.endswith("addmm") else args[0] if args else None
    if not isinstance(tensor, FakeTensor) or tensor.layout is not torch.sparse_coo:
        return NotImplemented
    if name in _PRODUCTS:
        other = args[_PRODUCTS[name]]
        return torch.empty(
            (tensor.shape[0], other.shape[1]), dtype=other.dtype, device=other.device
        )
    dtype = kwargs.get("dtype") or tensor.dtype
    if name == "_to_copy":
        return _copy(tensor, kwargs.get("device") or tensor.device, dtype, tensor.is_coalesced())
    if name == "_to_dense":
        return torch.empty(tensor.shape, dtype=dtype, device=tensor.device)
    return NotImplemented


def _copy(tensor: torch.Tensor, device: Any, dtype: torch.dtype, is_coalesced: bool) -> Any:
    indices, values = tensor._indices(), tensor._values()
    return torch.sparse_coo_tensor(
        torch.empty(indices.shape, dtype=indices.dtype, device=device),
        torch.empty(values.shape, dtype=dtype, device=device),
        tensor.shape,
        is_coalesced=is_coalesced,
        check_invariants=False,
    )
