"""How the tests ask who holds a tensor."""

from __future__ import annotations

from typing import Any

from gpumemprof.holders.found import Holders
from gpumemprof.holders.search import find_holders


def place(tensor: Any) -> tuple[int, int]:
    """Where its memory is, which says nothing about the tensor itself."""
    storage = tensor.untyped_storage()
    return storage.data_ptr(), storage.nbytes()


def make(places: list[tuple[int, int]], size: int = 256) -> Any:
    """A tensor that no one holds yet; its place is added to the list."""
    import torch

    tensor = torch.zeros(size)
    places.append(place(tensor))
    return tensor


def holders(places: list[tuple[int, int]]) -> Holders:
    return find_holders(places)


def texts(places: list[tuple[int, int]]) -> list[str]:
    """All chains, without whose names they begin with."""
    return [str(chain).partition("  (")[0] for chain in find_holders(places).chains]


def notes(places: list[tuple[int, int]]) -> list[str]:
    return [chain.root.note for chain in find_holders(places).chains]
