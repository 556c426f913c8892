"""Stores and rendezvous: every rank has a store of its own, and none waits for a network."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlparse

import torch
from torch.distributed import distributed_c10d, rendezvous

from gpumemprof.estimate.engine.failures import CannotEstimate
from gpumemprof.estimate.patches.patcher import Patcher
from gpumemprof.estimate.ranks.selection import flags_for
from gpumemprof.estimate.ranks.world import World

__all__ = ["install"]


class Store(torch.distributed.HashStore):  # type: ignore[misc]
    """A store without other ranks: what nobody here has set, nobody will."""

    def __init__(self, *_: Any, **__: Any) -> None:
        super().__init__()
        self.host, self.port = "127.0.0.1", 29500

    def get(self, key: str) -> Any:
        self._expect([key])
        return super().get(key)

    def wait(self, keys: list[str], timeout: timedelta | None = None) -> None:
        self._expect(keys)

    def set_timeout(self, timeout: timedelta) -> None:
        pass

    def _expect(self, keys: list[str]) -> None:
        missing = [key for key in keys if not self.check([key])]
        if missing:
            raise CannotEstimate(
                f"the program waits for the key {missing[0]!r}, which another rank would set in "
                "the store",
                "pass it on with torch.distributed.broadcast_object_list: ranks that are predicted "
                "together do exchange objects",
            )


def install(patcher: Patcher, world: World | None) -> None:
    def meet(url: str, rank: int = -1, world_size: int = -1, **_: Any) -> Any:
        asked = parse_qs(urlparse(url).query)
        rank = int(asked.get("rank", [rank])[0])
        size = int(asked.get("world_size", [world_size])[0])
        rank = _from_environment("RANK", rank)
        size = _from_environment("WORLD_SIZE", size)
        _check_world(rank, size, world)
        yield Store(), rank, size

    patcher.set(distributed_c10d, "rendezvous", meet)
    patcher.set(rendezvous, "rendezvous", meet)
    patcher.set(torch.distributed, "rendezvous", meet)
    for name in ("TCPStore", "FileStore"):
        for owner in (torch.distributed, distributed_c10d, rendezvous):
            patcher.set_if_present(owner, name, Store)
    for name in ("_store_based_barrier",):
        patcher.set(distributed_c10d, name, lambda *_, **__: None)


def _from_environment(name: str, given: int) -> int:
    if given >= 0:
        return given
    text = os.environ.get(name, "")
    if not text.isdecimal():
        raise CannotEstimate(
            f"the program starts torch.distributed, and {name} is not set: it expects to be "
            "started by torchrun",
            "say how many processes there are: gpumemprof estimate --nproc 8 ...",
        )
    return int(text)


def _check_world(rank: int, size: int, world: World | None) -> None:
    ranks = 1 if world is None else world.size
    if size == ranks or size == 1:
        return
    raise CannotEstimate(
        f"the program starts torch.distributed with {size} ranks, and {ranks} "
        f"{'is' if ranks == 1 else 'are'} predicted",
        f"use gpumemprof estimate {flags_for(size)} ...",
    )
