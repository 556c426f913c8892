"""FSDP cuts each parameter into as many chunks as there are ranks, and uses one or two of them."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any, overload

import torch

from gpumemprof.estimate.patches.patcher import Patcher
from gpumemprof.estimate.ranks.world import World

__all__ = ["LazyChunks", "install"]

# By release.
_USERS = (
    "torch.distributed.fsdp._fully_shard._fsdp_param",
    "torch.distributed._composable.fsdp._fsdp_param",
)
_MANY = 32


def install(patcher: Patcher, world: World | None) -> None:
    """In small worlds, torch's own way takes no time."""
    if world is None or world.size < _MANY:
        return
    for name in _USERS:
        try:
            user = importlib.import_module(name)
        except ImportError:
            continue
        patcher.set_if_present(user, "_chunk_with_empty", LazyChunks)
        return


class LazyChunks(Sequence[torch.Tensor]):
    """The chunks of a tensor, each made when it is asked for; those beyond the end are empty."""

    def __init__(self, tensor: torch.Tensor, num_chunks: int, dim: int) -> None:
        self._tensor = tensor
        self._count = num_chunks
        self._dim = dim
        self._length = tensor.shape[dim]
        self._size = max(1, -(-self._length // num_chunks))

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, place: int) -> torch.Tensor: ...
    @overload
    def __getitem__(self, place: slice) -> list[torch.Tensor]: ...
    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return [self[each] for each in range(*place.indices(self._count))]
        number = place + self._count if place < 0 else place
        if not 0 <= number < self._count:
            raise IndexError("list index out of range")
        start = number * self._size
        if start >= self._length and number > 0:
            return self._tensor.new_empty(0)
        length = min(self._size, self._length - start)
        return self._tensor.narrow(self._dim, start, length)
