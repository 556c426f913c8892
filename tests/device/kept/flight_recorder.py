"""What ``keep=`` costs compared with recording to one file: time of a step, and memory.

One process trains a small, host-bound model and records it by turns to a file and to a folder of
chapters. Each turn is compared with the next one, which records the other way; both are in random
order, so that drift cancels out. Memory is that of processes of their own, which allocate in a loop
and keep some: what they have at the end more than before they started to record. Prints one line of
JSON: the median ratio of step times with its 95 % interval, the same for the processor time of the
whole process, and the mebibytes of both ways.

Usage: flight_recorder.py [--cpu] [--seconds N]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Callable

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

WARM_STEPS = 5
TIMED_STEPS = 25
KEEP = 64 << 20
MEMORY_PAIRS = 400_000


def make_step(is_cpu: bool) -> tuple[Callable[[], None], Callable[[], None]]:
    import torch

    if is_cpu:
        from overhead_model import make_small_training

        return make_small_training(), lambda: None
    from workloads import small_training

    return small_training(), torch.cuda.synchronize


def turn(path: Path, is_cpu: bool, keep: int | None, work: Any) -> tuple[float, float]:
    """Seconds and processor seconds of a step."""
    import gpumemprof

    step, wait = work
    recording = gpumemprof.start(path, cpu=is_cpu, keep=keep)
    for _ in range(WARM_STEPS):
        step()
    wait()
    begin, busy = time.perf_counter(), time.process_time()
    for _ in range(TIMED_STEPS):
        step()
    wait()
    seconds, processor = time.perf_counter() - begin, time.process_time() - busy
    recording.stop()
    if recording.summary["lost_events"] or recording.summary["problem"]:
        raise SystemExit(f"the recording is not whole: {recording.summary}")
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    return seconds / TIMED_STEPS, processor / TIMED_STEPS


def interval(ratios: list[float]) -> dict[str, float]:
    """The median and its 95 % interval, by drawing again."""
    draws = random.Random(1)
    medians = sorted(statistics.median(draws.choices(ratios, k=len(ratios))) for _ in range(1000))
    return {
        "median": statistics.median(ratios),
        "low": medians[25],
        "high": medians[974],
        "pairs": len(ratios),
    }


def compare(folder: Path, is_cpu: bool, seconds: float) -> dict[str, Any]:
    work = make_step(is_cpu)
    for _ in range(30):
        work[0]()
    order = random.Random(2)
    wall, processor = [], []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        ways: list[int | None] = [None, KEEP]
        order.shuffle(ways)
        took = {way: turn(folder / "run.gmp", is_cpu, way, work) for way in ways}
        wall.append(took[KEEP][0] / took[None][0])
        processor.append(took[KEEP][1] / took[None][1])
    return {"step_ratio": interval(wall), "processor_ratio": interval(processor)}


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def measure_memory(path: Path, is_cpu: bool, keep: int | None) -> None:
    """In a process of its own: prints the mebibytes that recording takes."""
    import gpumemprof
    import torch

    device = "cpu" if is_cpu else "cuda"
    kept = [torch.empty(100, device=device) for _ in range(5_000)]
    before = resident_bytes()
    recording = gpumemprof.start(path, cpu=is_cpu, keep=keep)
    for pair in range(MEMORY_PAIRS):
        kept[pair % len(kept)] = torch.empty(100 + pair % 7, device=device)
    grown = resident_bytes() - before
    recording.stop()
    print(json.dumps(grown / 2**20))


def memory(folder: Path, is_cpu: bool, keep: int) -> float:
    words = [sys.executable, __file__, "--memory", str(folder / f"memory{keep}.gmp"), str(keep)]
    done = subprocess.run(
        [*words, *(["--cpu"] if is_cpu else [])], capture_output=True, text=True, check=True
    )
    return float(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--seconds", type=float, default=35)
    parser.add_argument("--memory", nargs=2)
    options = parser.parse_args()
    if options.memory:
        path, keep = options.memory
        measure_memory(Path(path), options.cpu, int(keep) or None)
        return
    folder = Path(tempfile.mkdtemp())
    found = compare(folder, options.cpu, options.seconds)
    found["file_mib"] = memory(folder, options.cpu, 0)
    found["kept_mib"] = memory(folder, options.cpu, KEEP)
    shutil.rmtree(folder)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
