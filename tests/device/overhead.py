"""What recording costs: a host-bound training step, and an allocate/free pair 30 frames deep.

The ways of recording take turns from one run to the next, in one process and with one recording
open throughout: a run with it, a run without, and so on. What drifts drifts for both, so each run
is compared with the mean of its two neighbours without, and the median of the differences counts,
with the range it lies in with 95 % certainty. The hooks that name parameters and gradients take
part: they do nothing in a step without. They are also timed by themselves, which tells more than
they cost: much of it is waiting for memory that the optimizer would have had to wait for. Prints
one line of JSON.

Usage: overhead.py [--cpu] [SECONDS]     --cpu: a small model on CPU tensors, no torch recorder
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import statistics
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any, Callable

import gpumemprof
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own custom
from gpumemprof import _core, _torch, hooks
from gpumemprof.hooks.watcher import Watcher
from workloads import Gpt, make_training

# Seconds spent in the hooks around optimizer steps.
in_hooks: list[float] = []
OWN_WAYS = ("stacks", "no_stacks")
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
    is_recorded = way in OWN_WAYS
    _core.capture_hold(not is_recorded, way == "no_stacks")
    assert hooks._watcher is not None
    hooks._watcher._is_on = is_recorded
    if way == "torch":
        torch.cuda.memory._record_memory_history("all", stacks="python", max_entries=100_000)
    elif torch.cuda.is_initialized() and torch._C._cuda_isHistoryEnabled():
        torch.cuda.memory._record_memory_history(None)


def compare(measure: Callable[[], float], ways: tuple[str, ...], seconds: float) -> Differences:
    found: Differences = defaultdict(list)
    end = time.monotonic() + seconds
    turn = 0
    measure()
    before = measure()
    while time.monotonic() < end:
        way = ways[turn % len(ways)]
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


def time_step(step: Callable[[], object], wait: Callable[[], object]) -> float:
    wait()
    start = time.perf_counter()
    step()
    wait()
    return time.perf_counter() - start


def make_small_training() -> Callable[[], None]:
    """So small that the host is what it waits for."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = Gpt(layers=12, width=64, vocabulary=100)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    ids = torch.randint(0, 100, (1, 9))

    def train_step() -> None:
        logits = model(ids[:, :-1])
        F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten()).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return train_step


def steps(device: str, ways: tuple[str, ...], seconds: float) -> dict[str, Any]:
    step = make_training() if device == "cuda" else make_small_training()
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    for _ in range(10):
        step()
    in_hooks.clear()
    found = compare(lambda: time_step(step, wait), ways, seconds)
    shares = {way: middle([t / off - 1 for t, off in rows]) for way, rows in found.items()}
    off = statistics.median(off for rows in found.values() for _, off in rows)
    # One before a step, one after it; those of steps without labels are as good as nothing.
    at_work = sorted(in_hooks)[-len(in_hooks) * len(OWN_WAYS) // (2 * len(ways)) :]
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


def pairs(device: str, count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        torch.empty(1000, device=device)
    return (time.perf_counter() - start) / count


def pair_costs(device: str, ways: tuple[str, ...], seconds: float) -> dict[str, Any]:
    found = compare(lambda: deep(30, pairs, device, 3000), ways, seconds)
    return {way: middle([(t - off) * 1e6 for t, off in rows]) for way, rows in found.items()}


def main(is_cpu: bool, seconds: float) -> None:
    time_hooks()
    path = Path(tempfile.mkdtemp()) / "run.gmp"
    device, ways = ("cpu", OWN_WAYS) if is_cpu else ("cuda", (*OWN_WAYS, "torch"))
    with gpumemprof.record(path, cpu=is_cpu) as recording:
        torch.empty(1, device=device)
        while not is_cpu and recording.self_test is None:
            time.sleep(0.001)
        gc.collect()
        gc.disable()  # its pauses fall on whoever comes first
        result = {
            "steps": steps(device, ways, seconds),
            "pair_us": pair_costs(device, ways, seconds / 8),
        }
    print(json.dumps(result))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("seconds", nargs="?", type=float, default=100)
    options = parser.parse_args()
    main(options.cpu, options.seconds)
