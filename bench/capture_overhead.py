"""Nanoseconds per event of live capture, and the ratio to tracemalloc and torch.profiler.

Runs the same loops of CPU tensors under each: tensors made by one line, whose stack is always the
same, and by functions that call each other, whose stacks share their callers. Needs no GPU.

Usage: python bench/capture_overhead.py [ROUNDS]
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import gpumemprof
import torch

FOLDER = Path(tempfile.mkdtemp())
DEPTH = 20
PAIRS = 20_000
WAYS = ("off", "gpumemprof", "gpumemprof_no_stacks", "tracemalloc", "torch.profiler")


@contextmanager
def watched(way: str) -> Iterator[None]:
    if way.startswith("gpumemprof"):
        path = FOLDER / f"{way}.gmp"
        with gpumemprof.record(path, cpu=True, stacks=way == "gpumemprof", overwrite=True):
            yield
    elif way == "tracemalloc":
        tracemalloc.start(DEPTH)
        yield
        tracemalloc.stop()
    elif way == "torch.profiler":
        activities = [torch.profiler.ProfilerActivity.CPU]
        with torch.profiler.profile(activities=activities, profile_memory=True, with_stack=True):
            yield
    else:
        yield


def pairs(count: int) -> float:
    """Seconds per tensor made and dropped, with a Python object that tracemalloc sees."""
    start = time.perf_counter()
    for _ in range(count):
        torch.empty(1000), [None]
    return (time.perf_counter() - start) / count


def make() -> None:
    torch.empty(1000), [None]


def make_deeper(depth: int) -> None:
    if depth > 0:
        make_deeper(depth - 1)
    make()


def varied(count: int) -> float:
    """The same, each tensor from a different stack than the previous one."""
    start = time.perf_counter()
    for _ in range(count // 10):
        make()
        make_deeper(3)
        make_deeper(1)
        make_deeper(2)
    return (time.perf_counter() - start) / (count // 10 * 10)


Loop = Callable[[int], float]


def deep(depth: int, loop: Loop, count: int) -> float:
    return loop(count) if depth == 0 else deep(depth - 1, loop, count)


def compare(loop: Loop, what: str, rounds: int) -> None:
    times: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(rounds):
        for way in WAYS:
            count = PAIRS // (10 if way == "torch.profiler" else 1)
            with watched(way):
                deep(DEPTH, loop, 100)
                times[way].append(deep(DEPTH, loop, count))
    base = statistics.median(times["off"])
    added = {way: (statistics.median(times[way]) - base) * 1e9 for way in WAYS[1:]}
    print(f"a tensor made and dropped {what}, {DEPTH} frames deep: {base * 1e9:.0f} ns")
    for way, cost in added.items():
        is_peer = not way.startswith("gpumemprof") and cost > 0
        share = f"   gpumemprof costs {added['gpumemprof'] / cost:.2f} of it" if is_peer else ""
        print(f"  {way:<22} {cost:+6.0f} ns{share}")


def main(rounds: int) -> None:
    compare(pairs, "by one line", rounds)
    compare(varied, "by changing functions", rounds)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 7)
