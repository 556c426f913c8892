"""What recording costs: a host-bound training step, and an allocate/free pair 30 frames deep.

All ways of recording take turns in one process, in many short rounds; medians are compared. Prints
one line of JSON.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import gpumemprof
import torch
from workloads import make_training

FOLDER = Path(tempfile.mkdtemp())
WAYS = ("off", "stacks", "no_stacks", "torch")


@contextmanager
def recording(way: str) -> Iterator[None]:
    if way == "off":
        yield
    elif way == "torch":
        torch.cuda.memory._record_memory_history("all", stacks="python", max_entries=100_000)
        yield
        torch.cuda.memory._record_memory_history(None)
    else:
        with gpumemprof.record(FOLDER / f"{way}.gmp", stacks=way == "stacks", overwrite=True):
            yield


def time_steps(step, count: int) -> float:
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(count):
        step()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / count


def steps(rounds: int, per_round: int) -> dict[str, float]:
    step = make_training()
    for _ in range(10):
        step()
    times: dict[str, list[float]] = {way: [] for way in WAYS}
    for turn in range(rounds):
        for way in WAYS[turn % 4 :] + WAYS[: turn % 4]:
            with recording(way):
                step()
                times[way].append(time_steps(step, per_round))
    # Neighbours are compared: what drifts (clocks, temperature) drifts for all.
    added = {
        way: statistics.median(t / off - 1 for t, off in zip(times[way], times["off"]))
        for way in WAYS[1:]
    }
    return {"step_ms": statistics.median(times["off"]) * 1e3, **added}


def deep(depth: int, function, *arguments):
    return function(*arguments) if depth == 0 else deep(depth - 1, function, *arguments)


def pairs(count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        torch.empty(1000, device="cuda")
    return (time.perf_counter() - start) / count


def pair_costs(rounds: int) -> dict[str, float]:
    times: dict[str, list[float]] = {way: [] for way in WAYS}
    for turn in range(rounds):
        for way in WAYS[turn % 4 :] + WAYS[: turn % 4]:
            with recording(way):
                deep(30, pairs, 100)
                times[way].append(deep(30, pairs, 5000))
    return {
        way: statistics.median(t - off for t, off in zip(times[way], times["off"])) * 1e6
        for way in WAYS[1:]
    }


def main(rounds: int) -> None:
    result = {"steps": steps(rounds, 2), "pair_us": pair_costs(rounds)}
    print(json.dumps(result))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 80)
