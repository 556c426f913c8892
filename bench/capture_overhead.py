"""Nanoseconds an event of live capture, as a ratio to tracemalloc and torch.profiler.

The same loop of CPU tensors under each; needs no GPU. Usage: python bench/capture_overhead.py
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Iterator
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
    """Seconds for each tensor made and dropped; with a Python object, which tracemalloc sees."""
    start = time.perf_counter()
    for _ in range(count):
        torch.empty(1000), [None]
    return (time.perf_counter() - start) / count


def deep(depth: int, count: int) -> float:
    return pairs(count) if depth == 0 else deep(depth - 1, count)


def main(rounds: int) -> None:
    times: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(rounds):
        for way in WAYS:
            with watched(way):
                deep(DEPTH, 100)
                times[way].append(deep(DEPTH, PAIRS // (10 if way == "torch.profiler" else 1)))
    base = statistics.median(times["off"])
    added = {way: (statistics.median(times[way]) - base) * 1e9 for way in WAYS[1:]}
    print(f"a tensor made and dropped, {DEPTH} frames deep: {base * 1e9:.0f} ns")
    for way, cost in added.items():
        share = added["gpumemprof"] / cost if cost > 0 else float("nan")
        print(f"  {way:<22} +{cost:6.0f} ns   gpumemprof costs {share:.2f} of it")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 7)
