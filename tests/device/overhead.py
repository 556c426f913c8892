"""What recording costs: a host-bound training step, and an allocate/free pair 30 frames deep.

The ways of recording alternate from one round to the next, in one process and with one recording
open throughout: a round with it, a round without, and so on. Drift affects both, so each round is
compared with the mean of its two neighbours without recording, and the result is the median of the
differences, with its 95 % confidence interval. Of the two steps of a round the second is timed,
since it is like a step of a long run: the caches hold what every step uses, our thread writes one
step while the next one runs, and in torch's buffer a new entry replaces an old one.

The hooks that name parameters and gradients are included: they do nothing in a round without. They
are also timed on their own, which overstates their cost: much of it is waiting for memory that the
optimizer would have had to wait for anyway.

Once attached, torch's tracker stays attached, and torch creates an entry for it even when nothing
is recorded: the rounds without recording include that cost. Prints one line of JSON.

Usage: overhead.py [--cpu] [SECONDS]     --cpu: a small model on CPU tensors, no torch recorder
"""

from __future__ import annotations

import argparse
import functools
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
from gpumemprof import _core, hooks
from gpumemprof.torch_calls.tensors import plain_kinds
from overhead_model import make_small_training
from torch.optim import optimizer as torch_optimizer
from workloads import make_training

# Seconds spent in each of the hooks around optimizer steps.
in_hooks: dict[str, list[float]] = {"before": [], "after": []}
OWN_WAYS = ("stacks", "no_stacks")
# Fewer than a step has, so that the buffer is full once the timed step begins.
TORCH_ENTRIES = 2_000
PAIRS = 3000
Differences = dict[str, list[tuple[float, float]]]  # by way: seconds with, seconds without


def time_hooks() -> None:
    """Call once a recording has installed its optimizer hooks."""

    def timed(hook: Callable[..., None], times: list[float]) -> Callable[..., None]:
        def run(*arguments: Any) -> None:
            start = time.perf_counter()
            hook(*arguments)
            times.append(time.perf_counter() - start)

        return run

    for hooks_on, times in (
        (torch_optimizer._global_optimizer_pre_hooks, in_hooks["before"]),
        (torch_optimizer._global_optimizer_post_hooks, in_hooks["after"]),
    ):
        for key, hook in hooks_on.items():
            hooks_on[key] = timed(hook, times)


def switch(way: str) -> None:
    is_recorded = way in OWN_WAYS
    _core.capture_hold(not is_recorded, way == "no_stacks")
    assert hooks._watcher is not None
    hooks._watcher._is_on = is_recorded
    if not is_recorded:
        hooks._watcher._unchanged.clear()
    if way == "torch":
        torch.cuda.memory._record_memory_history("all", stacks="python", max_entries=TORCH_ENTRIES)
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
    """One round: seconds taken by the second of two steps."""
    step()
    wait()
    start = time.perf_counter()
    step()
    wait()
    return time.perf_counter() - start


def steps(measure: Callable[[], float], ways: tuple[str, ...], seconds: float) -> dict[str, Any]:
    for times in in_hooks.values():
        times.clear()
    found = compare(measure, ways, seconds)
    shares = {way: middle([t / off - 1 for t, off in rows]) for way, rows in found.items()}
    off = statistics.median(off for rows in found.values() for _, off in rows)
    # The times of steps without labels are negligible.
    share = len(OWN_WAYS) / (2 * len(ways))
    at_work = (sorted(times)[-int(len(times) * share) :] for times in in_hooks.values())
    return {
        "step_ms": off * 1e3,
        "rounds": len(found["stacks"]),
        "labels": sum(statistics.median(times) for times in at_work) / off,
        "reads_tensors": reads_tensors(),
        "reads_threads": _core.capture_use_thread_key(),
        **shares,
    }


def reads_tensors() -> bool:
    """Whether addresses are read directly from torch's own objects."""
    places = _core.TensorPlaces()
    groups = [{"params": [torch.nn.Parameter(torch.ones(2))]}]
    return [places.read(groups, plain_kinds()) for _ in range(2)][-1] == _core.PlaceChange.none


def deep(depth: int, function, *arguments):
    return function(*arguments) if depth == 0 else deep(depth - 1, function, *arguments)


def time_pairs(device: str) -> float:
    start = time.perf_counter()
    for _ in range(PAIRS):
        torch.empty(1000, device=device)
    return (time.perf_counter() - start) / PAIRS


def pair_costs(
    measure: Callable[[], float], ways: tuple[str, ...], seconds: float
) -> dict[str, Any]:
    found = compare(measure, ways, seconds)
    return {way: middle([(t - off) * 1e6 for t, off in rows]) for way, rows in found.items()}


def main(is_cpu: bool, seconds: float) -> None:
    path = Path(tempfile.mkdtemp()) / "run.gmp"
    device, ways = ("cpu", OWN_WAYS) if is_cpu else ("cuda", (*OWN_WAYS, "torch"))
    step = make_small_training() if is_cpu else make_training()
    wait = (lambda: None) if is_cpu else torch.cuda.synchronize
    measure_step = functools.partial(time_step, step, wait)
    measure_pair = functools.partial(deep, 30, time_pairs, device)
    with gpumemprof.record(path, cpu=is_cpu) as recording:
        torch.empty(1, device=device)
        time_hooks()
        while not is_cpu and recording.self_test is None:
            time.sleep(0.001)
        for _ in range(10):
            step()
        gc.collect()
        gc.disable()  # its pauses would hit one way at random
        switch("off")
        result = {
            "steps": steps(measure_step, ways, seconds),
            "pair_us": pair_costs(measure_pair, ways, seconds / 8),
        }
    print(json.dumps(result))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("seconds", nargs="?", type=float, default=150)
    options = parser.parse_args()
    main(options.cpu, options.seconds)
