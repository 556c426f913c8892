"""Values after a collective, if this rank's are known: other ranks are taken to have the same."""

from __future__ import annotations

import torch
from torch._subclasses.fake_tensor import FakeTensor

from gpumemprof.estimate.engine.fake_mode import outside_modes
from gpumemprof.estimate.engine.values import forget, known_value, set_known

__all__ = [
    "are_few_integers",
    "copy",
    "exchange",
    "reduce",
    "repeat",
    "set_value",
    "take_part",
]


def set_value(tensor: torch.Tensor, value: torch.Tensor | None) -> None:
    """What a tensor contains from now on; None if that is not known."""
    if not isinstance(tensor, FakeTensor):
        if value is not None:
            with outside_modes():
                tensor.copy_(value.reshape(tensor.shape))
        return
    forget(tensor)
    if value is not None and value.numel() == tensor.numel():
        with outside_modes():
            value = value.detach().reshape(tensor.shape).to(tensor.dtype, copy=True)
        set_known(tensor, value, assumed=True)


def copy(tensor: torch.Tensor, source: torch.Tensor) -> None:
    """The tensor has the source's values."""
    set_value(tensor, known_value(source))


def repeat(tensor: torch.Tensor, source: torch.Tensor, times: int) -> None:
    """The tensor has the source's values, once for each rank."""
    value = known_value(source)
    if value is not None:
        with outside_modes():
            value = value.detach().reshape(-1).repeat(times)
    set_value(tensor, value)


def take_part(tensor: torch.Tensor, source: torch.Tensor, rank: int) -> None:
    """The tensor has this rank's part of the source's values."""
    value = known_value(source)
    if value is not None:
        size = tensor.numel()
        with outside_modes():
            value = value.detach().reshape(-1)[rank * size : (rank + 1) * size]
    set_value(tensor, value)


def reduce(tensor: torch.Tensor, how: str, ranks: int) -> None:
    """The tensor is reduced over ranks that all have its values."""
    if ranks == 1:
        return
    value = known_value(tensor)
    if value is None:
        return
    with outside_modes():
        value = value.detach()
        if how == "sum":
            value = value * ranks
        elif how == "product":
            value = value**ranks
        elif how == "bxor" and ranks % 2 == 0:
            value = torch.zeros_like(value)
    set_value(tensor, value)


def exchange(tensor: torch.Tensor, source: torch.Tensor, rank: int, ranks: int) -> None:
    """Every rank sends a part of its values to every other one."""
    value = known_value(source)
    if value is not None and value.numel() == tensor.numel() and value.numel() % ranks == 0:
        with outside_modes():
            value = value.detach().reshape(ranks, -1)[rank].repeat(ranks)
    set_value(tensor, value)


def are_few_integers(tensor: torch.Tensor, most: int) -> bool:
    """Whether programs may decide by its values how to go on."""
    dtype = tensor.dtype
    return not dtype.is_floating_point and not dtype.is_complex and tensor.numel() <= most
