"""Finds who holds memory: the shortest chains from a name in the program to a block.

`walk` follows the references. Nothing is kept alive afterwards, nothing of the program is run, no
collection is forced, and no GPU is asked.
"""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Iterator, Sequence
from typing import Any

from gpumemprof.holders.found import Holders
from gpumemprof.holders.names import Names
from gpumemprof.holders.reading import forget_types
from gpumemprof.holders.walk import Walk
from gpumemprof.torch_calls import graphs

__all__ = ["find_holders", "no_collection"]

_MOST_SUSPECTS = 50
_MOST_SECONDS = 0.8
_MOST_CHAINS = 3


@contextlib.contextmanager
def no_collection() -> Iterator[None]:
    """Inside, our own allocations start no garbage collection.

    It would run code of the program, and free the cycles that are looked for.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def find_holders(
    places: Sequence[tuple[int, int]],
    targets: Sequence[Any] = (),
    names: Names | None = None,
    most_seconds: float = _MOST_SECONDS,
) -> Holders:
    """Who holds these pieces of memory, given as (address, bytes), or these objects.

    At most 50 of them are followed; more are sampled evenly. One thread does it at a time.
    """
    with no_collection():
        return _find(places, targets, names, most_seconds)


def _find(
    places: Sequence[tuple[int, int]],
    targets: Sequence[Any],
    names: Names | None,
    most_seconds: float,
) -> Holders:
    started = time.thread_time()
    count = len(places)
    if count + len(targets) > _MOST_SUSPECTS:
        most = max(1, _MOST_SUSPECTS - len(targets))
        places = [places[rank * (count - 1) // max(1, most - 1)] for rank in range(most)]
    targets = list(targets)[: _MOST_SUSPECTS - 1]
    # The frames to come are not the program's.
    names = names or Names()
    count = len(places) + len(targets)
    walk = Walk(places, count, names, most_seconds)
    try:
        with graphs.quiet_torch():
            numbered = [(thing, len(places) + rank) for rank, thing in enumerate(targets)]
            walk.leave_out(targets, numbered, *numbered)
            walk.run(walk.start(numbered))
            walk.add_hooks_of_nodes()
            return _result(walk, count, started)
    finally:
        walk.forget()
        forget_types()
        graphs.forget_types()


def _result(walk: Walk, count: int, started: float) -> Holders:
    chains = walk.chains()
    result = Holders(chains=chains[:_MOST_CHAINS], blocks=count, is_whole=walk.is_whole)
    held = walk.reached()
    result.held_blocks = bin(held).count("1")
    unheld = walk.seen() & ~held
    if unheld:
        result.cycle = walk.cycle(unheld)
        if result.cycle is None and not chains and walk.is_whole:
            result.unknown_holder = walk.unknown(unheld)
    result.seconds = time.thread_time() - started
    return result
