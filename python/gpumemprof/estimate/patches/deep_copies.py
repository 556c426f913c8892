"""copy.copy() and copy.deepcopy() of fake tensors allocate what those of plain tensors do."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from gpumemprof.estimate.engine.fake_mode import outside_modes

__all__ = ["deep_copy", "deep_copy_of_real", "shallow_copy"]

_copy_real = torch.Tensor.__deepcopy__


def shallow_copy(tensor: FakeTensor) -> Any:
    made = tensor.detach().requires_grad_(tensor.requires_grad)
    for name, value in tensor.__dict__.items():
        made.__dict__.setdefault(name, value)
    return made


def deep_copy(tensor: FakeTensor, memo: dict[Any, Any]) -> Any:
    if not tensor.is_leaf:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy "
            "protocol at the moment."
        )
    if id(tensor) in memo:
        return memo[id(tensor)]
    if isinstance(tensor, torch.nn.Parameter):
        data = tensor.data.clone(memory_format=torch.preserve_format)
        memo[id(tensor)] = torch.nn.Parameter(data, tensor.requires_grad)
        return memo[id(tensor)]
    with torch.no_grad():
        # torch copies the whole storage, once for all tensors that share it, and makes an empty
        # tensor that it then points at the copy.
        storage = _storage_copy(tensor, memo)
        empty = tensor.new_empty([])
        typed = storage.view(tensor.dtype)
        made = typed.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset()).detach()
        del empty
    made.requires_grad_(tensor.requires_grad)
    if tensor.grad is not None:
        made.grad = deep_copy(tensor.grad, memo)
    _copy_attributes(tensor, made, memo)
    memo[id(tensor)] = made
    return made


def deep_copy_of_real(tensor: torch.Tensor, memo: dict[Any, Any]) -> Any:
    """A real tensor on the host stays one: the copy would otherwise have no storage of its kind."""
    if type(tensor) is not torch.Tensor:
        return _copy_real(tensor, memo)
    with outside_modes():
        return _copy_real(tensor, memo)


def _storage_copy(tensor: FakeTensor, memo: dict[Any, Any]) -> torch.Tensor:
    storage = tensor.untyped_storage()
    key = ("storage", storage._cdata)
    if key not in memo:
        size = storage.nbytes()
        memo[key] = torch.empty((size,), dtype=torch.uint8, device=tensor.device)
    found: torch.Tensor = memo[key]
    whole = found.numel() // tensor.element_size() * tensor.element_size()
    return found if whole == found.numel() else found[:whole]


def _copy_attributes(tensor: FakeTensor, made: FakeTensor, memo: dict[Any, Any]) -> None:
    for name, value in tensor.__dict__.items():
        if name in made.__dict__ or name == "_known_value":
            continue
        made.__dict__[name] = copy.deepcopy(value, memo)
    known = tensor.__dict__.get("_known_value")
    if known is not None:
        with outside_modes():
            made._known_value = known.clone()
