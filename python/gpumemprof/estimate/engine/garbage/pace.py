"""Python's garbage collector runs as often as it would on a GPU.

It runs when so many objects were made and not destroyed again since it last did; until then,
tensors that refer to each other in a circle live on. A tensor of a prediction consists of about ten
objects instead of one, so circles would be found too early. What the engine adds for each storage
is counted, and the limit raised by it.
"""

from __future__ import annotations

import contextlib
import gc
import sys
from typing import Any

import torch

__all__ = ["CollectionsPace"]

# The limit is not moved for less.
_LEAST_CHANGE = 8
_MOST_FRAMES = 10_000


class CollectionsPace:
    """Counts the objects that the engine made for storages that are still alive."""

    def __init__(self) -> None:
        self._of_storage: dict[int, int] = {}  # those born since the last collection, by number
        self._living = 0
        self._usual = self._limit = 0
        self._is_on = False
        self.added = 0
        """How many objects were counted so far."""
        self.collections = 0
        self._frames: set[int] = set()

    def begin(self) -> None:
        self._is_on = True
        self._usual = self._limit = gc.get_threshold()[0]
        gc.callbacks.append(self._on_collection)

    def end(self) -> None:
        with contextlib.suppress(ValueError):  # The program may have cleared the list.
            gc.callbacks.remove(self._on_collection)
        self._of_storage.clear()
        self._living = 0
        self._adjust()
        # Storages that outlive the prediction no longer move the limit.
        self._is_on = False

    def count_objects(self) -> int:
        """As many as Python has counted since the last collection.

        The engine looks at the program's frames, which makes an object of each. They go when their
        functions return; so they are made before anything is counted.
        """
        frame = sys._getframe(1).f_back
        seen = self._frames
        if len(seen) > _MOST_FRAMES:
            seen.clear()
        while frame is not None and id(frame) not in seen:
            seen.add(id(frame))
            frame = frame.f_back
        return gc.get_count()[0]

    def after(
        self, births: range, objects: int, added: int, collections: int, outputs: Any
    ) -> None:
        """An operation has returned, in which these storages were born.

        `objects`, `added` and `collections` are as they were before it. What other operations
        within it made was counted already. Nothing that is alive here may be an object that Python
        counts, but for the outputs.
        """
        if collections != self.collections or not self._is_on:
            return
        made = gc.get_count()[0] - objects - _count_tensors(outputs)
        # One less: it must not run less often than on a GPU.
        more = made - (self.added - added) - 1
        if more <= 0:
            return
        self.added += more
        each, rest = divmod(more, len(births))
        for number in births:
            self._of_storage[number] = self._of_storage.get(number, 0) + each
        self._of_storage[births[-1]] += rest
        self._living += more
        self._adjust()

    def on_death(self, number: int) -> None:
        """The storage with this number died."""
        found = self._of_storage.pop(number, 0)
        if found:
            self._living -= found
            self._adjust()

    def _adjust(self) -> None:
        first, *others = gc.get_threshold()
        if first != self._limit:  # The program has chosen another one.
            self._usual = self._limit = first
        wanted = self._usual + self._living if self._usual else 0
        if abs(wanted - self._limit) >= _LEAST_CHANGE or not self._living:
            self._limit = wanted
            gc.set_threshold(wanted, *others)

    def _on_collection(self, phase: str, _: dict[str, int]) -> None:
        if phase == "stop":
            self.collections += 1
            self._of_storage.clear()
            self._living = 0
            self._adjust()


def _count_tensors(outputs: Any) -> int:
    if isinstance(outputs, torch.Tensor):
        return 1
    if isinstance(outputs, (tuple, list)):
        return sum(isinstance(each, torch.Tensor) for each in outputs)
    return 0
