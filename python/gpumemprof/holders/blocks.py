"""Pieces of memory, found by an address inside them."""

from __future__ import annotations

import bisect
from collections.abc import Sequence

__all__ = ["Blocks"]


class Blocks:
    """Pieces of memory, found by an address inside them."""

    __slots__ = ("_ends", "_numbers", "_starts")

    def __init__(self, places: Sequence[tuple[int, int]]) -> None:
        """From (address, bytes) of each."""
        order = sorted(range(len(places)), key=lambda number: places[number][0])
        self._numbers = order
        self._starts = [places[number][0] for number in order]
        self._ends = [places[number][0] + max(places[number][1], 1) for number in order]

    def at(self, address: int) -> int | None:
        """The number of the block that contains the address."""
        place = bisect.bisect_right(self._starts, address) - 1
        if address == 0 or place < 0 or address >= self._ends[place]:
            return None
        return self._numbers[place]
