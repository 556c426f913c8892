"""Private pools of the caching allocator, which CUDA graphs and torch.cuda.MemPool use.

Memory of a private pool serves only requests to that pool. Each capture and each `MemPool` object
keeps its pool; when nobody does, the next `empty_cache` may return its segments.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from typing import Any

import torch

from gpumemprof.estimate.engine.device import Device
from gpumemprof.estimate.patches.patcher import Patcher

__all__ = ["Pool", "Pools", "install"]

Pool = tuple[int, int]


class Pools:
    """Which pools are in use, and by how many."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._numbers = itertools.count(1)
        self._user_numbers = itertools.count(1)
        self._users: dict[Pool, int] = {}

    def of_capture(self) -> Pool:
        """A new pool for a graph that was given none."""
        return (next(self._numbers), 0)

    def of_user(self) -> Pool:
        """A new pool that the program passes around."""
        return (0, next(self._user_numbers))

    def keep(self, pool: Pool) -> None:
        self._users[pool] = self._users.get(pool, 0) + 1

    def release(self, pool: Pool) -> None:
        left = self._users.get(pool, 0) - 1
        if left > 0:
            self._users[pool] = left
        elif self._users.pop(pool, None) is not None:
            self._device.memory.release_pool(pool)

    @contextlib.contextmanager
    def within(self, pool: Pool) -> Iterator[None]:
        """Allocations come from the pool."""
        self.keep(pool)
        before, self._device.pool = self._device.pool, pool
        try:
            yield
        finally:
            self._device.pool = before
            self.release(pool)


def install(patcher: Patcher, device: Device, pools: Pools) -> None:
    class MemPool:
        """torch.cuda.MemPool: its memory goes back to the device when it dies."""

        def __init__(self, allocator: Any = None, *_: Any, **__: Any) -> None:
            self.id = pools.of_user()
            self.allocator = allocator
            pools.keep(self.id)

        @property
        def device(self) -> int:
            return device.index

        def use_count(self) -> int:
            return 1

        def snapshot(self, *_: Any, **__: Any) -> list[Any]:
            return []

        def __del__(self) -> None:
            pools.release(self.id)
            device.memory.empty_pool(self.id)

    @contextlib.contextmanager
    def use_mem_pool(pool: MemPool, *_: Any, **__: Any) -> Iterator[None]:
        with pools.within(pool.id):
            yield

    for owner in (torch.cuda, torch.cuda.memory):
        patcher.set_if_present(owner, "use_mem_pool", use_mem_pool)
        patcher.set_if_present(owner, "MemPool", MemPool)
