"""The cost of profiling CPU tensors: a profiled call, and monitoring of a training loop.

Needs no GPU. Each is compared with the same code without profiling in the same run. The variants
take turns; for monitoring the first quartile of the rounds counts, since other load only adds time.
Usage: python bench/profiler_cost.py [ROUNDS]
"""

from __future__ import annotations

import statistics
import sys
import time
from typing import Callable

import torch
from gpumemprof import CPUMemoryProfiler

CALLS = 2000
BAR_CALL_US = 20.0
BAR_MONITORING = 0.01
WAYS = ("off", "counting", "monitoring")


def empty() -> None:
    pass


def seconds_of(work: Callable[[], object], times: int) -> float:
    start = time.perf_counter()
    for _ in range(times):
        work()
    return (time.perf_counter() - start) / times


def call_cost_us(rounds: int, track_cpu_memory: bool) -> float:
    """Microseconds that a profiled call of an empty function adds."""
    profiler = CPUMemoryProfiler(synchronize=False, track_cpu_memory=track_cpu_memory)
    added = []
    for _ in range(rounds):
        bare = seconds_of(empty, CALLS)
        profiled = seconds_of(lambda: profiler.profile_function(empty), CALLS)
        added.append(profiled - bare)
        profiler.clear_results()
    return statistics.median(added) * 1e6


def make_step() -> Callable[[], None]:
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(256, 512), torch.nn.GELU(), torch.nn.Linear(512, 256)
    )
    optimizer = torch.optim.AdamW(model.parameters())
    data = torch.randn(64, 256)

    def step() -> None:
        optimizer.zero_grad()
        model(data).square().mean().backward()
        optimizer.step()

    return step


def monitoring_cost(rounds: int, steps: int) -> dict[str, float]:
    """The fraction of a training step that counting alone, and monitoring at 10 ms, add to it."""
    step = make_step()
    seconds_of(step, steps)
    times: dict[str, list[float]] = {way: [] for way in WAYS}
    for turn in range(rounds):
        for way in WAYS[turn % 3 :] + WAYS[: turn % 3]:
            profiler = None if way == "off" else CPUMemoryProfiler()
            if profiler is not None and way == "monitoring":
                profiler.start_monitoring(interval=0.01)
            seconds_of(step, steps)  # one-time costs of a loop are not costs per step
            times[way].append(seconds_of(step, steps))
            if profiler is not None:
                profiler.stop_monitoring()
            del profiler
    quiet = {way: statistics.quantiles(times[way], n=4)[0] for way in WAYS}
    return {way: quiet[way] / quiet["off"] - 1 for way in WAYS[1:]}


def main(rounds: int) -> int:
    torch.set_num_threads(1)
    full, bare = call_cost_us(rounds, True), call_cost_us(rounds, False)
    print(f"a profiled call of an empty function adds {full:.1f} µs (bar: {BAR_CALL_US:.0f} µs)")
    print(f"  without the process's resident memory    {bare:.1f} µs")
    shares = monitoring_cost(10 * rounds, 10)
    print(f"monitoring at 10 ms adds {shares['monitoring']:+.2%} to a training step (bar: 1 %)")
    print(f"  counting alone adds    {shares['counting']:+.2%}")
    return 0 if full <= BAR_CALL_US and shares["monitoring"] < BAR_MONITORING else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 31))
