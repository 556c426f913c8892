"""What recording costs against a process that never loaded gpumemprof.

Several processes train the same small, host-bound model. They take turns of some steps each, so
that only one of them runs at any time and all of them see the same drift of the machine. One is
plain; another is plain too, and shows how much two equal processes differ; one records with stacks,
one without stacks, one without labels, one uses torch's own recorder. Each turn is compared with
those of the plain processes in the same round. All processes are started afresh several times:
where a process happens to lie in memory is worth a percent or two by itself, and only other
processes show that.

Reported for each way: wall time of a step, processor time of the process (all threads, up to the
moment when nothing is left to write), both as a share of the plain processes' with the range in
which the median lies with 95 % certainty, and the milliseconds of a step that each thread computed.
Prints one line of JSON.

Usage: turns.py [--cpu] [--rounds N] [--generations N] [WAY...]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any, Callable

PLAIN = ("plain", "plain_again")
WAYS = ("stacks", "no_stacks", "no_labels", "torch")
STEPS = 20
WARM_STEPS = 30
# As long as it takes until our thread has written what the turn made.
SETTLE_SECONDS = 0.06
TORCH_ENTRIES = 100_000
CORES = 4


def make_step(is_cpu: bool) -> tuple[Callable[[], None], Callable[[], None]]:
    """One training step, and how to wait for it."""
    import torch
    import workloads

    if is_cpu:
        from overhead_model import make_small_training

        return make_small_training(), lambda: None
    return workloads.make_training(), torch.cuda.synchronize


def start(way: str) -> Any:
    """Begin to record in this way; what comes back must be kept."""
    if way in PLAIN:
        return None
    if way == "torch":
        import torch

        torch.cuda.memory._record_memory_history("all", stacks="python", max_entries=TORCH_ENTRIES)
        return None
    import gpumemprof

    path = Path(tempfile.mkdtemp()) / "run.gmp"
    return gpumemprof.start(path, stacks=way != "no_stacks", labels=way != "no_labels")


def thread_seconds() -> dict[str, float]:
    """Processor time of each thread so far, by its name; of threads with one name the sum."""
    found: dict[str, float] = defaultdict(float)
    for task in Path("/proc/self/task").iterdir():
        try:
            name = (task / "comm").read_text().strip()
            found[name] += int((task / "schedstat").read_text().split()[0]) / 1e9
        except (OSError, ValueError, IndexError):
            continue
    return dict(found)


def child(way: str, is_cpu: bool) -> None:
    """Take a turn for every line of standard input, and print what it took."""
    import gc

    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    recording = start(way)
    step, wait = make_step(is_cpu)
    for _ in range(WARM_STEPS):
        step()
    wait()
    gc.collect()
    gc.disable()  # its pauses fall on whoever comes first
    print("ready", flush=True)
    for _ in sys.stdin:
        step()
        wait()
        time.sleep(SETTLE_SECONDS)
        threads = thread_seconds()
        processor, begin = time.process_time(), time.perf_counter()
        for _ in range(STEPS):
            step()
        wait()
        end = time.perf_counter()
        time.sleep(SETTLE_SECONDS)
        result = {
            "wall": (end - begin) / STEPS,
            "processor": (time.process_time() - processor) / STEPS,
            "threads": {
                name: (seconds - threads.get(name, 0.0)) / STEPS
                for name, seconds in thread_seconds().items()
            },
        }
        print(json.dumps(result), flush=True)
    if recording is not None:
        recording.stop()
        print(json.dumps(recording.summary), flush=True)


class Child:
    def __init__(self, way: str, is_cpu: bool) -> None:
        self.way = way
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--child", way, *(["--cpu"] if is_cpu else [])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parent,
        )

    def read(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the process for {self.way} ended early")
        return line

    def turn(self) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        result: dict[str, Any] = json.loads(self.read())
        return result

    def end(self) -> dict[str, Any]:
        out, _ = self.process.communicate()
        return json.loads(out) if out.strip() else {}


def middle(values: list[float]) -> dict[str, float]:
    draw = random.Random(0)
    medians = sorted(statistics.median(draw.choices(values, k=len(values))) for _ in range(400))
    return {"median": statistics.median(values), "low": medians[10], "high": medians[389]}


def generation(ways: list[str], is_cpu: bool, rounds: int) -> list[dict[str, dict[str, Any]]]:
    """New processes; what each of them took in each round."""
    children = [Child(way, is_cpu) for way in ways]
    for each in children:
        each.read()
    found = []
    for _ in range(rounds):
        random.shuffle(children)
        found.append({each.way: each.turn() for each in children})
    for each in children:
        lost = each.end().get("lost_events", 0)
        if lost:
            raise RuntimeError(f"{each.way} lost {lost} events")
    return found


def compare(rounds: list[dict[str, dict[str, Any]]], way: str, what: str) -> list[float]:
    base = PLAIN[:1] if way in PLAIN else PLAIN
    return [
        row[way][what] / statistics.mean(row[plain][what] for plain in base) - 1 for row in rounds
    ]


def main(ways: list[str], is_cpu: bool, rounds: int, generations: int) -> None:
    found = [generation([*PLAIN, *ways], is_cpu, rounds) for _ in range(generations)]
    everything = [row for rows in found for row in rows]
    result: dict[str, Any] = {
        "step_ms": statistics.median(row["plain"]["wall"] for row in everything) * 1e3,
        "processor_ms": statistics.median(row["plain"]["processor"] for row in everything) * 1e3,
        "rounds": len(everything),
    }
    for way in (PLAIN[1], *ways):
        result[way] = {
            what: {
                **middle(compare(everything, way, what)),
                "generations": [statistics.median(compare(rows, way, what)) for rows in found],
            }
            for what in ("wall", "processor")
        }
    for way in ("plain", *ways):
        names = {name for row in everything for name in row[way]["threads"]}
        times = {
            name: statistics.median(row[way]["threads"].get(name, 0.0) for row in everything) * 1e3
            for name in names
        }
        result.setdefault("threads_ms", {})[way] = {
            name: round(ms, 4) for name, ms in sorted(times.items()) if ms >= 0.005
        }
    print(json.dumps(result))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--rounds", type=int, default=16)
    parser.add_argument("--generations", type=int, default=3)
    parser.add_argument("--child")
    parser.add_argument("ways", nargs="*", metavar="WAY")
    options = parser.parse_args()
    if options.child:
        child(options.child, options.cpu)
    else:
        usual = [way for way in WAYS if not (options.cpu and way == "torch")]
        main(options.ways or usual, options.cpu, options.rounds, options.generations)
