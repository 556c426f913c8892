"""What recording costs against a process that never loaded gpumemprof.

Several processes train the same small, host-bound model and take turns, so that only one of them
runs at any time and all of them see the same drift of the machine. Two are plain; the others record
with stacks, without stacks (`no_stacks`), without stacks and labels (`bare`), use torch's own
recorder, or only have torch make an entry for each event that nobody reads (`attached`). Every turn
of a recording process lies between turns of the two plain ones and is compared with their mean; the
two plain ones are compared with each other, which shows what such a comparison is worth. All
processes are started afresh several times: where a process happens to lie in memory is worth a
percent or two by itself, and only other processes show that.

Short turns (a step to warm up, then one that is timed) tell the wall time. Long turns tell the
processor time of the whole process, all threads, up to the moment when nothing is left to write.
Both are given as a share of the plain processes', with the range in which the median lies with 95 %
certainty. Prints one line of JSON.

Usage: turns.py [--cpu] [--seconds N] [--generations N] [WAY...]
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
WAYS = ("stacks", "no_stacks", "attached", "torch")
CUDA_ONLY = ("attached", "torch")
LONG_TURN = 20
WARM_STEPS = 30
# As long as it takes until our thread has written what the turn made.
SETTLE_SECONDS = 0.06
TORCH_ENTRIES = 2_000
Turn = dict[str, Any]


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

    if way == "attached":
        import torch
        from gpumemprof import _core, _torch

        torch.cuda.init()
        _core.capture_attach_cuda(*_torch.version())
        return None
    path = Path(tempfile.mkdtemp()) / "run.gmp"
    return gpumemprof.start(path, stacks=way == "stacks", labels=way != "bare")


def thread_seconds() -> dict[str, float]:
    """Processor time of each thread so far, by its name; of threads with one name the sum."""
    found: dict[str, float] = defaultdict(float)
    for task in Path("/proc/self/task").iterdir():
        try:
            # The name may hold anything but ends with the last parenthesis.
            head, _, fields = (task / "stat").read_text().rpartition(") ")
            user, system = fields.split()[11:13]
        except (OSError, ValueError):
            continue
        found[head.partition("(")[2]] += (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
    return dict(found)


def short_turn(step: Callable[[], None], wait: Callable[[], None]) -> Turn:
    step()
    wait()
    begin = time.perf_counter()
    step()
    wait()
    return {"wall": time.perf_counter() - begin}


def long_turn(step: Callable[[], None], wait: Callable[[], None]) -> Turn:
    step()
    wait()
    time.sleep(SETTLE_SECONDS)
    threads, processor = thread_seconds(), time.process_time()
    for _ in range(LONG_TURN):
        step()
    wait()
    time.sleep(SETTLE_SECONDS)
    return {
        "processor": (time.process_time() - processor) / LONG_TURN,
        "threads": {
            name: (seconds - threads.get(name, 0.0)) / LONG_TURN
            for name, seconds in thread_seconds().items()
        },
    }


def child(way: str, is_cpu: bool) -> None:
    """Take a turn for every line of standard input, and print what it took."""
    import gc

    recording = start(way)
    step, wait = make_step(is_cpu)
    for _ in range(WARM_STEPS):
        step()
    wait()
    gc.collect()
    gc.disable()  # its pauses fall on whoever comes first
    print("ready", flush=True)
    for line in sys.stdin:
        turn = long_turn if line == "long\n" else short_turn
        print(json.dumps(turn(step, wait)), flush=True)
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

    def turn(self, kind: str) -> Turn:
        assert self.process.stdin is not None
        self.process.stdin.write(kind + "\n")
        self.process.stdin.flush()
        result: Turn = json.loads(self.read())
        return result

    def end(self) -> Turn:
        out, _ = self.process.communicate()
        return json.loads(out) if out.strip() else {}


def middle(values: list[float]) -> dict[str, float]:
    draw = random.Random(0)
    medians = sorted(statistics.median(draw.choices(values, k=len(values))) for _ in range(400))
    return {"median": statistics.median(values), "low": medians[10], "high": medians[389]}


class Generation:
    """New processes, and the turns they took."""

    def __init__(self, ways: list[str], is_cpu: bool, seconds: float) -> None:
        self.shares: dict[tuple[str, str], list[float]] = defaultdict(list)  # by way and figure
        self.turns: dict[str, list[Turn]] = defaultdict(list)
        self.summaries: dict[str, Turn] = {}
        self._children = {way: Child(way, is_cpu) for way in (*PLAIN, *ways)}
        for each in self._children.values():
            each.read()
        self._ways = ways
        for kind, figure, share in (("short", "wall", 0.6), ("long", "processor", 0.4)):
            end = time.monotonic() + seconds * share
            while time.monotonic() < end:
                self._round(kind, figure)
        for way, each in self._children.items():
            self.summaries[way] = each.end()

    def _round(self, kind: str, figure: str) -> None:
        first, second = random.sample(PLAIN, 2)
        before = self._turn(first, kind)[figure]
        both = {first: before}
        for way in random.sample(self._ways, len(self._ways)):
            during = self._turn(way, kind)[figure]
            after = both[second] = self._turn(second, kind)[figure]
            self.shares[way, figure].append(2 * during / (before + after) - 1)
            before, first, second = after, second, first
        self.shares[PLAIN[1], figure].append(both[PLAIN[1]] / both[PLAIN[0]] - 1)

    def _turn(self, way: str, kind: str) -> Turn:
        turn = self._children[way].turn(kind)
        self.turns[way].append(turn)
        return turn


def threads_of(turns: list[Turn]) -> dict[str, float]:
    """Milliseconds of a step that each thread computed."""
    rows = [turn["threads"] for turn in turns if "threads" in turn]
    names = sorted({name for row in rows for name in row})
    times = {name: statistics.mean(row.get(name, 0.0) for row in rows) * 1e3 for name in names}
    return {name: round(ms, 3) for name, ms in times.items() if ms >= 0.005}


def main(ways: list[str], is_cpu: bool, seconds: float, generations: int) -> None:
    found = [Generation(ways, is_cpu, seconds / generations) for _ in range(generations)]

    def turns(way: str) -> list[Turn]:
        return [turn for each in found for turn in each.turns[way]]

    plain = turns(PLAIN[0])
    result: dict[str, Any] = {
        "step_ms": statistics.median(row["wall"] for row in plain if "wall" in row) * 1e3,
        "processor_ms": statistics.median(r["processor"] for r in plain if "processor" in r) * 1e3,
        "rounds": sum(len(each.shares[ways[0], "wall"]) for each in found),
    }
    for way in (PLAIN[1], *ways):
        result[way] = {
            figure: {
                **middle([share for each in found for share in each.shares[way, figure]]),
                "generations": [statistics.median(each.shares[way, figure]) for each in found],
            }
            for figure in ("wall", "processor")
        }
        result[way]["threads_ms"] = threads_of(turns(way))
        result[way]["lost"] = sum(each.summaries[way].get("lost_events", 0) for each in found)
    print(json.dumps(result))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--seconds", type=float, default=160)
    parser.add_argument("--generations", type=int, default=4)
    parser.add_argument("--child")
    parser.add_argument("ways", nargs="*", metavar="WAY")
    options = parser.parse_args()
    if options.child:
        child(options.child, options.cpu)
    else:
        usual = [way for way in WAYS if not (options.cpu and way in CUDA_ONLY)]
        main(options.ways or usual, options.cpu, options.seconds, options.generations)
