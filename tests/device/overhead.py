"""What recording costs: a host-bound training step, and an allocate/free pair 30 frames deep.

All ways of recording take turns in one process, in many short rounds, each between two rounds
without any; the median of the differences counts, with the range it may lie in. Prints
one line of JSON.
"""

from __future__ import annotations

import gc
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Callable

import gpumemprof
import torch
from workloads import make_training

FOLDER = Path(tempfile.mkdtemp())
WAYS = ("stacks", "no_stacks", "torch")
Measured = dict[str, list[tuple[float, float]]]


@contextmanager
def recording(way: str) -> Iterator[None]:
    if way == "torch":
        torch.cuda.memory._record_memory_history("all", stacks="python", max_entries=100_000)
        yield
        torch.cuda.memory._record_memory_history(None)
    else:
        path = FOLDER / f"{way}.gmp"
        with gpumemprof.record(path, stacks=way == "stacks", overwrite=True) as recording:
            torch.empty(1, device="cuda")
            while recording.self_test is None:  # once a run, not once a step
                time.sleep(0.001)
            yield


def time_steps(step, count: int) -> float:
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(count):
        step()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / count


def compare(measure: Callable[[], float], warm: Callable[[], object], rounds: int) -> Measured:
    """Each way between two runs without recording: what drifts drifts for both neighbours."""
    measured: Measured = {way: [] for way in WAYS}
    warm()
    before = measure()
    for turn in range(rounds):
        for way in WAYS[turn % len(WAYS) :] + WAYS[: turn % len(WAYS)]:
            with recording(way):
                warm()
                during = measure()
            warm()
            after = measure()
            measured[way].append((during, (before + after) / 2))
            before = after
    return measured


def middle(values: list[float]) -> dict[str, float]:
    """The median, and the range it lies in with 95 % certainty (by drawing again, 1000 times)."""
    draw = random.Random(0)
    medians = sorted(statistics.median(draw.choices(values, k=len(values))) for _ in range(1000))
    return {"median": statistics.median(values), "low": medians[25], "high": medians[975]}


def steps(rounds: int, per_round: int) -> dict[str, Any]:
    step = make_training()
    for _ in range(10):
        step()
    measured = compare(lambda: time_steps(step, per_round), step, rounds)
    added = {way: middle([t / off - 1 for t, off in pairs]) for way, pairs in measured.items()}
    off = [off for pairs in measured.values() for _, off in pairs]
    return {"step_ms": statistics.median(off) * 1e3, **added}


def deep(depth: int, function, *arguments):
    return function(*arguments) if depth == 0 else deep(depth - 1, function, *arguments)


def pairs(count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        torch.empty(1000, device="cuda")
    return (time.perf_counter() - start) / count


def pair_costs(rounds: int) -> dict[str, Any]:
    measured = compare(lambda: deep(30, pairs, 5000), lambda: deep(30, pairs, 100), rounds)
    return {way: middle([(t - off) * 1e6 for t, off in rows]) for way, rows in measured.items()}


def main(rounds: int) -> None:
    gc.collect()
    gc.disable()  # its pauses fall on whoever comes first
    result = {"steps": steps(rounds, 3), "pair_us": pair_costs(rounds)}
    print(json.dumps(result))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 120)
