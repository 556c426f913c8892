"""What profiling costs on a real device; a part of profiler/run.py."""

from __future__ import annotations

import statistics
import time
from typing import Any, Callable

import torch
from checks import check
from gpumemprof import CPUMemoryProfiler, GPUMemoryProfiler


def empty() -> None:
    pass


def seconds_of(work: Callable[[], object], times: int) -> float:
    start = time.perf_counter()
    for _ in range(times):
        work()
    return (time.perf_counter() - start) / times


def call_cost(profiler: Any, bar_us: float) -> str:
    added = []
    for _ in range(31):
        bare = seconds_of(empty, 1000)
        added.append(seconds_of(lambda: profiler.profile_function(empty), 1000) - bare)
        profiler.clear_results()
    cost = statistics.median(added) * 1e6
    if cost > bar_us:
        raise AssertionError(f"{cost:.1f} us, more than {bar_us}")
    return f"{cost:.1f} us (bar {bar_us:.0f} us)"


def monitoring_cost() -> str:
    from workloads import make_training

    step = make_training()
    for _ in range(10):
        step()

    def steps() -> float:
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(3):
            step()
        torch.cuda.synchronize()
        return time.perf_counter() - start

    def monitored() -> float:
        with GPUMemoryProfiler() as profiler:
            profiler.start_monitoring(interval=0.01)
            step()
            return steps()

    def counted() -> float:
        profiler = GPUMemoryProfiler()
        step()
        seconds = steps()
        del profiler
        return seconds

    def bare() -> float:
        step()
        return steps()

    # An attached tracker stays attached: "without us" means before the first profiler.
    untouched = [bare() for _ in range(40)]
    GPUMemoryProfiler()
    ways = {"off": bare, "counting": counted, "monitoring": monitored}
    times: dict[str, list[float]] = {way: [] for way in ways}
    for turn in range(80):
        order = list(ways)
        for way in order[turn % 3 :] + order[: turn % 3]:
            times[way].append(ways[way]())
    shares = {
        way: statistics.median(t / off - 1 for t, off in zip(times[way], times["off"]))
        for way in ("counting", "monitoring")
    }
    attached = statistics.median(times["off"]) / statistics.median(untouched) - 1
    told = (
        f"{shares['monitoring']:+.2%} of {statistics.median(times['off']) / 3 * 1e3:.2f} ms "
        f"(counting {shares['counting']:+.2%}, tracker attached {attached:+.2%}; bar 1 %)"
    )
    if shares["monitoring"] >= 0.01:
        raise AssertionError(told)
    return told


def cost() -> None:
    check("cost: monitoring at 10 ms", monitoring_cost)
    quick = GPUMemoryProfiler(synchronize=False)
    check("cost: an empty function", lambda: call_cost(quick, 20))
    waits = GPUMemoryProfiler()
    check("cost: an empty function, synchronized", lambda: call_cost(waits, 1000))
    on_cpu = CPUMemoryProfiler(synchronize=False)
    check("cost: an empty function, CPU tensors", lambda: call_cost(on_cpu, 20))
