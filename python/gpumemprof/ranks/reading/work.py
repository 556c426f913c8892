"""Shares work out to processes: those of this machine here, those of a cluster in `cluster`."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Protocol, TypeVar

from gpumemprof.errors import EnvironmentProblem

__all__ = ["Workers", "in_processes"]

Item = TypeVar("Item")
Result = TypeVar("Result")

_MOST_PROCESSES = 8


class Workers(Protocol):
    """Calls a function for each item, anywhere, and yields the results in the items' order."""

    def __call__(self, function: Callable[[Item], Result], items: list[Item]) -> Iterator[Result]:
        """As `in_processes` does."""
        ...


def in_processes(function: Callable[[Item], Result], items: list[Item]) -> Iterator[Result]:
    """By as many processes as there are processors; a few items by this one.

    Raises:
        EnvironmentProblem: one of the processes was ended.
    """
    processes = min(len(os.sched_getaffinity(0)), _MOST_PROCESSES, len(items))
    if processes < 2:
        yield from map(function, items)
        return
    context = multiprocessing.get_context("fork")
    try:
        with ProcessPoolExecutor(processes, context) as pool:
            yield from pool.map(function, items)
    except BrokenProcessPool:
        raise EnvironmentProblem(
            "one of the processes that read was ended, perhaps because main memory was full",
            "environment",
            "",
            "read fewer at once, or on a machine with more memory",
        ) from None
