"""What recording costs: a host-bound training step, and an allocate/free pair 30 frames deep.

The ways of recording take turns from one run to the next, in one process and with one recording
open throughout: a run with it, a run without, and so on. What drifts drifts for both, so each run
is compared with the mean of its two neighbours without, and the median of the differences counts,
with the range it lies in with 95 % certainty. The hooks that name parameters and gradients take
part: they do nothing in a step without. They are also timed by themselves, which tells more than
they cost: much of it is waiting for memory that the optimizer would have had to wait for. Prints
one line of JSON.

Usage: overhead.py [SECONDS]
"""

from __future__ import annotations

import gc
import json
import random
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any, Callable

import gpumemprof
import torch
from gpumemprof import _core, _torch, hooks
from gpumemprof.hooks.watcher import Watcher
from workloads import make_training

# Seconds spent in the hooks around optimizer steps.
in_hooks: list[float] = []
WAYS = ("stacks", "no_stacks", "torch")
Differences = dict[str, list[tuple[float, float]]]  # by way: seconds with, seconds without


def time_hooks() -> None:
    """Before a recording begins."""

    def timed(hook: Callable[..., None]) -> Callable[..., None]:
        def run(*arguments: Any) -> None:
            start = time.perf_counter()
            hook(*arguments)
            in_hooks.append(time.perf_counter() - start)

        return run

    for name in ("_before_step", "_after_step"):
        setattr(Watcher, name, timed(getattr(Watcher, name)))


def switch(way: str) -> None:
    is_recorded = way in ("stacks", "no_stacks")
    _core.capture_hold(not is_recorded, way == "no_stacks")
    assert hooks._watcher is not None
    hooks._watcher._is_on = is_recorded
    if way == "torch":
        torch.cuda.memory._record_memory_history("all", stacks="python", max_entries=100_000)
    elif torch._C._cuda_isHistoryEnabled():
        torch.cuda.memory._record_memory_history(None)


def compare(measure: Callable[[], float], seconds: float) -> Differences:
    found: Differences = defaultdict(list)
    end = time.monotonic() + seconds
    turn = 0
    measure()
    before = measure()
    while time.monotonic() < end:
        way = WAYS[turn % len(WAYS)]
        switch(way)
        during = measure()
        switch("off")
        after = measure()
        found[way].append((during, (before + after) / 2))
        before = after
        turn += 1
    return found


def middle(values: list[float]) -> dict[str, float]:
    draw = random.Random(0)
    medians = sorted(statistics.median(draw.choices(values, k=len(values))) for _ in range(400))
    return {"median": statistics.median(values), "low": medians[10], "high": medians[389]}


def time_step(step: Callable[[], object]) -> float:
    torch.cuda.synchronize()
    start = time.perf_counter()
    step()
    torch.cuda.synchronize()
    return time.perf_counter() - start


def steps(seconds: float) -> dict[str, Any]:
    step = make_training()
    for _ in range(10):
        step()
    in_hooks.clear()
    found = compare(lambda: time_step(step), seconds)
    shares = {way: middle([t / off - 1 for t, off in rows]) for way, rows in found.items()}
    off = statistics.median(off for rows in found.values() for _, off in rows)
    # One before a step, one after it; those of steps without labels are as good as nothing.
    at_work = sorted(in_hooks)[len(in_hooks) * 2 // 3 :]
    labels = 2 * statistics.fmean(at_work) / off
    return {
        "step_ms": off * 1e3,
        "runs": len(found["stacks"]),
        "labels": labels,
        "reads_tensors": reads_tensors(),
        "reads_threads": _core.capture_use_thread_key(),
        **shares,
    }


def reads_tensors() -> bool:
    """Whether addresses are read from torch's own objects."""
    places = _core.TensorPlaces()
    groups = [{"params": [torch.nn.Parameter(torch.ones(2))]}]
    return [places.read(groups, _torch.plain_kinds()) for _ in range(2)][-1] == 0


def deep(depth: int, function, *arguments):
    return function(*arguments) if depth == 0 else deep(depth - 1, function, *arguments)


def pairs(count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        torch.empty(1000, device="cuda")
    return (time.perf_counter() - start) / count


def pair_costs(seconds: float) -> dict[str, Any]:
    found = compare(lambda: deep(30, pairs, 3000), seconds)
    return {way: middle([(t - off) * 1e6 for t, off in rows]) for way, rows in found.items()}


def main(seconds: float) -> None:
    time_hooks()
    path = Path(tempfile.mkdtemp()) / "run.gmp"
    with gpumemprof.record(path) as recording:
        torch.empty(1, device="cuda")
        while recording.self_test is None:
            time.sleep(0.001)
        gc.collect()
        gc.disable()  # its pauses fall on whoever comes first
        result = {"steps": steps(seconds), "pair_us": pair_costs(seconds / 8)}
    print(json.dumps(result))


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 100)
