"""What recording costs: a host-bound training step, and an allocate/free pair 30 frames deep.

All ways of recording take turns in one process, in many short rounds, each beside one without any;
medians are compared, with the range the difference may lie in. Prints
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
# stacks: everything there is. The others leave labels out, and then stacks too.
WAYS = ("stacks", "no_labels", "no_stacks", "torch")
Round = tuple[list[float], list[float]]  # seconds with recording, and right after it without
Rounds = dict[str, list[Round]]


@contextmanager
def recording(way: str) -> Iterator[None]:
    if way == "torch":
        torch.cuda.memory._record_memory_history("all", stacks="python", max_entries=100_000)
        yield
        torch.cuda.memory._record_memory_history(None)
    else:
        path = FOLDER / f"{way}.gmp"
        has_stacks, has_labels = way != "no_stacks", way == "stacks"
        with gpumemprof.record(
            path, stacks=has_stacks, labels=has_labels, overwrite=True
        ) as recording:
            torch.empty(1, device="cuda")
            while recording.self_test is None:  # once a run, not once a step
                time.sleep(0.001)
            yield


def time_each(step: Callable[[], object], count: int) -> list[float]:
    times = []
    torch.cuda.synchronize()
    for _ in range(count):
        start = time.perf_counter()
        step()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return times


def compare(measure: Callable[[], list[float]], warm: Callable[[], object], rounds: int) -> Rounds:
    """Each way beside a run without recording: what drifts drifts for both."""
    measured: Rounds = {way: [] for way in WAYS}
    for turn in range(rounds):
        for way in WAYS[turn % len(WAYS) :] + WAYS[: turn % len(WAYS)]:
            with recording(way):
                warm()
                during = measure()
            time.sleep(0.005)  # as long as a recording takes to begin
            warm()
            measured[way].append((during, measure()))
    return measured


def added(rounds: list[Round], difference: Callable[[float, float], float]) -> dict[str, float]:
    """The difference of the medians, and the range it lies in with 95 % certainty.

    A round counts with its fastest run: others use the machine too, and only ever slow a run down.
    The range is that of 500 draws of as many rounds.
    """
    fastest = [(min(during), min(off)) for during, off in rounds]

    def of(chosen: list[tuple[float, float]]) -> float:
        during, off = zip(*chosen)
        return difference(statistics.median(during), statistics.median(off))

    draw = random.Random(0)
    drawn = sorted(of(draw.choices(fastest, k=len(fastest))) for _ in range(500))
    return {"median": of(fastest), "low": drawn[12], "high": drawn[487]}


def steps(rounds: int) -> dict[str, Any]:
    step = make_training()
    for _ in range(10):
        step()
    measured = compare(lambda: time_each(step, 5), step, rounds)
    off = statistics.median(min(times) for _, times in measured["stacks"])
    costs = {way: added(done, lambda t, off: t / off - 1) for way, done in measured.items()}
    return {"step_ms": off * 1e3, **costs}


def deep(depth: int, function, *arguments):
    return function(*arguments) if depth == 0 else deep(depth - 1, function, *arguments)


def pairs(count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        torch.empty(1000, device="cuda")
    return (time.perf_counter() - start) / count


def pair_costs(rounds: int) -> dict[str, Any]:
    measured = compare(lambda: [deep(30, pairs, 5000)], lambda: deep(30, pairs, 100), rounds)
    return {way: added(done, lambda t, off: (t - off) * 1e6) for way, done in measured.items()}


def main(rounds: int) -> None:
    gc.collect()
    gc.disable()  # its pauses fall on whoever comes first
    result = {"steps": steps(rounds), "pair_us": pair_costs(rounds)}
    print(json.dumps(result))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 90)
