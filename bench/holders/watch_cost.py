"""What watching for leaks adds to a training step, on the GPU if there is one.

python bench/holders/watch_cost.py [SECONDS] prints one line of JSON. Stretches of steps with and
without a watch take turns in one process (A B B A), each in a recording of its own, so that every
watch is at its beginning, when it looks most often. `watch_percent` compares the times of a step,
of the GPU or, without one, the CPU time of the training thread; `spread_percent` is the standard
error of that. `hook_us_per_step` is the CPU time of the watch's call after a step, during which no
other thread of the program runs Python; `process_cpu_percent` counts the thread that reads, too.
Then a program that leaks is watched. The bar is 0.2 % of a step.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import gpumemprof
import torch
from gpumemprof.holders.watch import LeakWatch

IS_CUDA = torch.cuda.is_available()
STEPS = 120 if IS_CUDA else 60
DEVICE = "cuda" if IS_CUDA else "cpu"


class Stretch(NamedTuple):
    """Seconds, of all steps of a stretch."""

    step: float
    process: float
    hook: float


class Training:
    """About 13 ms a step, on an H200 as on one core."""

    def __init__(self) -> None:
        width, layers = (1024, 6) if IS_CUDA else (64, 2)
        blocks = [
            torch.nn.TransformerEncoderLayer(width, 8, batch_first=True) for _ in range(layers)
        ]
        self.model = torch.nn.Sequential(*blocks).to(DEVICE)
        self.optimizer = torch.optim.AdamW(self.model.parameters())
        self.batch = torch.randn(8, 128 if IS_CUDA else 16, width, device=DEVICE)
        self.losses: list[Any] = []

    def step(self, keeps: bool = False) -> None:
        loss = self.model(self.batch).square().mean()
        loss.backward()
        if keeps:
            self.losses.append(loss.detach() * torch.ones(1024, device=DEVICE))
        self.optimizer.step()
        self.optimizer.zero_grad()


def timed(watch: LeakWatch, spent: list[float]) -> None:
    """Add up what the watch's call takes."""
    inner = watch._look

    def look(is_due: bool) -> None:
        begin = time.thread_time()
        inner(is_due)
        spent.append(time.thread_time() - begin)

    watch._look = look  # type: ignore[method-assign]


def stretch(training: Training, folder: Path, is_watched: bool) -> Stretch:
    spent: list[float] = []
    with gpumemprof.record(folder / "run.gmp", cpu=not IS_CUDA, overwrite=True):
        watch = gpumemprof.watch_leaks() if is_watched else None
        if watch is not None:
            timed(watch, spent)
        clock = time.perf_counter if IS_CUDA else time.thread_time
        if IS_CUDA:
            torch.cuda.synchronize()
        cpu, begin = time.process_time(), clock()
        for _ in range(STEPS):
            training.step()
        if IS_CUDA:
            torch.cuda.synchronize()
        took = Stretch(clock() - begin, time.process_time() - cpu, sum(spent))
        if watch is not None:
            watch.stop()
    return took


def call_us() -> float:
    """One call of a watch that has nothing to do."""
    with (
        tempfile.TemporaryDirectory() as folder,
        gpumemprof.record(Path(folder) / "run.gmp", cpu=True) as recording,
        LeakWatch(recording) as watch,
    ):
        watch._next_step = 1 << 62
        begin = time.thread_time()
        for _ in range(100_000):
            watch._after_step()
        return (time.thread_time() - begin) * 10


def percents(ratios: list[float]) -> tuple[float, float]:
    """The mean of what is added, and its standard error, without the outermost tenths."""
    cut = sorted(ratios)[len(ratios) // 10 : len(ratios) - len(ratios) // 10]
    error = statistics.stdev(cut) / len(cut) ** 0.5 if len(cut) > 1 else 0.0
    return round(100 * (statistics.mean(cut) - 1), 3), round(100 * error, 3)


def main() -> int:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60.0
    warnings.simplefilter("ignore")
    if not IS_CUDA:
        torch.set_num_threads(1)
    training = Training()
    for _ in range(10):
        training.step()
    pairs: list[tuple[Stretch, Stretch]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        end = time.monotonic() + seconds
        while time.monotonic() < end or len(pairs) < 4:
            first = stretch(training, folder, False)
            watched = stretch(training, folder, True), stretch(training, folder, True)
            pairs += [(first, watched[0]), (stretch(training, folder, False), watched[1])]
        with (
            gpumemprof.record(folder / "leak.gmp", cpu=not IS_CUDA),
            gpumemprof.watch_leaks() as watch,
        ):
            for _ in range(60):
                training.step(keeps=True)
    percent, spread = percents([b.step / a.step for a, b in pairs])
    process, process_spread = percents([b.process / a.process for a, b in pairs])
    hook = statistics.median(b.hook for _, b in pairs) / STEPS
    step = statistics.median(a.step for a, _ in pairs) / STEPS
    row = {
        "device": torch.cuda.get_device_name() if IS_CUDA else "cpu",
        "torch": str(torch.__version__),
        "step_ms": round(1e3 * step, 3),
        "watch_percent": percent,
        "spread_percent": spread,
        "pairs": len(pairs),
        "hook_us_per_step": round(1e6 * hook, 2),
        "hook_percent": round(100 * hook / step, 4),
        "idle_call_us": round(call_us(), 3),
        "process_cpu_percent": process,
        "process_cpu_spread_percent": process_spread,
        "leaks": [
            {
                "where": leak.where,
                "held_by": leak.held_by,
                "search_cpu_s": round(leak.holders.seconds, 3),
            }
            for leak in watch.leaks
        ],
    }
    print(json.dumps(row, ensure_ascii=False))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
