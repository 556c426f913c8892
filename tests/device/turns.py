"""What recording costs compared with a process that never loaded gpumemprof.

Several processes train the same small, host-bound model and take turns, so that only one of them
runs at any time and all of them see the same machine drift. Two are plain; the others record
with stacks, without stacks (`no_stacks`), without stacks and labels (`bare`), use torch's own
recorder, or only make torch create an entry for each event that nobody reads (`attached`). Each
turn of a recording process is between turns of the two plain ones and is compared with their mean;
the two plain ones are compared with each other, which shows how reliable the comparison is.

The processes are forked from one that has loaded torch and nothing else, so all of them have the
same memory layout: the layout of a process alone is worth several percent. The layout effects that
remain differ from one generation of processes to the next, so there are many generations, and a
figure is their median, with its 95 % confidence interval.

Short turns (a warm-up step, then one that is timed) give the wall time. Long turns give the
processor time of the whole process, all threads, until there is nothing left to write, and its
instructions if the machine allows counting them. Prints one line of JSON.

Usage: turns.py [--cpu] [--seconds N] [WAY...]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from collections import defaultdict
from pathlib import Path
from typing import Any, Callable

from instructions import InstructionCounter

PLAIN = ("plain", "plain_again")
WAYS = ("stacks", "no_stacks", "attached", "torch")
CUDA_ONLY = ("attached", "torch")
FIGURES = ("wall", "processor", "instructions")
# The threads that a step runs on, each on a core of its own; all others share the next one.
PINNED = ("main", "pt_autograd_0", "gpumemprof")
GENERATION_SECONDS = 10
LONG_TURN = 20
WARM_STEPS = 30
# Long enough for our thread to write what the turn produced.
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
    """Begin to record in this way; the return value must be kept."""
    if way in PLAIN:
        return None
    if way == "torch":
        import torch

        torch.cuda.memory._record_memory_history("all", stacks="python", max_entries=TORCH_ENTRIES)
        return None
    import gpumemprof

    if way == "attached":
        import torch
        from gpumemprof import _core
        from gpumemprof.torch_calls import readiness

        torch.cuda.init()
        _core.capture_attach_cuda(*readiness.version())
        return None
    path = Path(tempfile.mkdtemp()) / "run.gmp"
    return gpumemprof.start(path, stacks=way == "stacks", labels=way != "bare")


def thread_seconds() -> dict[str, float]:
    """Processor time of each thread so far, by its name; threads with the same name are summed."""
    found: dict[str, float] = defaultdict(float)
    for task in Path("/proc/self/task").iterdir():
        try:
            # The name may contain anything but ends with the last parenthesis.
            head, _, fields = (task / "stat").read_text().rpartition(") ")
            user, system = fields.split()[11:13]
        except (OSError, ValueError):
            continue
        found[head.partition("(")[2]] += (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
    return dict(found)


def physical_cores() -> list[int]:
    """One thread of each core that this process may use: two on one core slow each other down."""
    found: dict[str, int] = {}
    for core in sorted(os.sched_getaffinity(0)):
        siblings = Path(f"/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list")
        found.setdefault(siblings.read_text() if siblings.exists() else str(core), core)
    return list(found.values())


def pin_threads() -> None:
    """Where the threads happen to run affects the time more than what is measured here."""
    cores = physical_cores()
    if len(cores) <= len(PINNED):
        return
    for task in Path("/proc/self/task").iterdir():
        is_main = int(task.name) == os.getpid()
        name = "main" if is_main else (task / "comm").read_text().strip()
        index = PINNED.index(name) if name in PINNED else len(PINNED)
        os.sched_setaffinity(int(task.name), {cores[index]})


class Worker:
    """Trains, in a process of its own, and takes a turn whenever it is asked to."""

    def __init__(self, way: str, is_cpu: bool) -> None:
        import gc

        self._counter = InstructionCounter()
        self._recording = start(way)
        self._step, self._wait = make_step(is_cpu)
        for _ in range(WARM_STEPS):
            self._step()
        self._wait()
        pin_threads()
        gc.collect()
        gc.disable()  # its pauses would hit one way at random

    def short(self) -> Turn:
        self._step()
        self._wait()
        begin = time.perf_counter()
        self._step()
        self._wait()
        return {"wall": time.perf_counter() - begin}

    def long(self) -> Turn:
        self._step()
        self._wait()
        time.sleep(SETTLE_SECONDS)
        threads, processor, instructions = self._spent()
        for _ in range(LONG_TURN):
            self._step()
        self._wait()
        time.sleep(SETTLE_SECONDS)
        threads_after, processor_after, instructions_after = self._spent()
        turn = {
            "processor": (processor_after - processor) / LONG_TURN,
            "threads": {
                name: (seconds - threads.get(name, 0.0)) / LONG_TURN
                for name, seconds in threads_after.items()
            },
        }
        if instructions is not None and instructions_after is not None:
            turn["instructions"] = (instructions_after - instructions) / LONG_TURN
        return turn

    def _spent(self) -> tuple[dict[str, float], float, int | None]:
        return thread_seconds(), time.process_time(), self._counter.read()

    def end(self) -> Turn:
        if self._recording is None:
            return {}
        self._recording.stop()
        summary: Turn = self._recording.summary
        return summary


def work(way: str, is_cpu: bool) -> None:
    """Take a turn for every line of standard input, and print what it cost."""
    worker = Worker(way, is_cpu)
    print("ready", flush=True)
    while (kind := sys.stdin.readline().strip()) != "end":
        print(json.dumps(worker.long() if kind == "long" else worker.short()), flush=True)
    print(json.dumps(worker.end()), flush=True)


class Child:
    """A process that takes turns: a fork of this one."""

    def __init__(self, way: str, is_cpu: bool) -> None:
        self.way = way
        theirs, self._question = os.pipe()
        answer, theirs_too = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            os.dup2(theirs, 0)
            os.dup2(theirs_too, 1)
            sys.stdin, sys.stdout = os.fdopen(0), os.fdopen(1, "w")
            status = 1
            try:
                work(way, is_cpu)
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        os.close(theirs)
        os.close(theirs_too)
        self._answers = os.fdopen(answer)

    def read(self) -> str:
        line = self._answers.readline()
        if not line:
            raise RuntimeError(f"the process for {self.way} ended early")
        return line

    def ask(self, kind: str) -> Turn:
        os.write(self._question, f"{kind}\n".encode())
        result: Turn = json.loads(self.read())
        return result

    def kill(self) -> None:
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)


class Generation:
    """New processes, and the turns they took."""

    def __init__(self, ways: list[str], is_cpu: bool, seconds: float) -> None:
        self.shares: dict[str, list[float]] = defaultdict(list)  # by way and figure
        self.turns: dict[str, list[Turn]] = defaultdict(list)
        self._ways = ways
        self._children = {way: Child(way, is_cpu) for way in (*PLAIN, *ways)}
        try:
            self._take_turns(seconds)
        finally:
            for each in self._children.values():
                each.kill()

    def _take_turns(self, seconds: float) -> None:
        for each in self._children.values():
            each.read()
        for kind, share in (("short", 0.6), ("long", 0.4)):
            end = time.monotonic() + seconds * share
            while time.monotonic() < end:
                self._round(kind)
        self.lost = {
            way: each.ask("end").get("lost_events", 0) for way, each in self._children.items()
        }

    def _round(self, kind: str) -> None:
        first, second = random.sample(PLAIN, 2)
        before = self._turn(first, kind)
        both = {first: before}
        for way in random.sample(self._ways, len(self._ways)):
            during = self._turn(way, kind)
            after = both[second] = self._turn(second, kind)
            for figure in self._figures_of(during):
                share = 2 * during[figure] / (before[figure] + after[figure]) - 1
                self.shares[f"{way} {figure}"].append(share)
            before, first, second = after, second, first
        for figure in self._figures_of(before):
            share = both[PLAIN[1]][figure] / both[PLAIN[0]][figure] - 1
            self.shares[f"{PLAIN[1]} {figure}"].append(share)

    @staticmethod
    def _figures_of(turn: Turn) -> list[str]:
        return [figure for figure in FIGURES if figure in turn]

    def _turn(self, way: str, kind: str) -> Turn:
        turn = self._children[way].ask(kind)
        self.turns[way].append(turn)
        return turn


def run_generation(ways: list[str], is_cpu: bool, seconds: float) -> None:
    """In a process of its own: no two generations share their memory layout."""
    os.chdir(Path(__file__).parent)
    import workloads  # noqa: F401 - loads torch, but nothing that a fork could not take along

    found = Generation(ways, is_cpu, seconds)
    print(json.dumps({"shares": found.shares, "turns": found.turns, "lost": found.lost}))


def new_generation(ways: list[str], is_cpu: bool, seconds: float) -> dict[str, Any]:
    command = [sys.executable, __file__, "--generation", "--seconds", str(seconds), *ways]
    command += ["--cpu"] if is_cpu else []
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def middle(values: list[float]) -> dict[str, float]:
    draw = random.Random(0)
    medians = sorted(statistics.median(draw.choices(values, k=len(values))) for _ in range(400))
    return {"median": statistics.median(values), "low": medians[10], "high": medians[389]}


def threads_of(turns: list[Turn]) -> dict[str, float]:
    """Milliseconds of a step that each thread spent computing."""
    rows = [turn["threads"] for turn in turns if "threads" in turn]
    names = sorted({name for row in rows for name in row})
    times = {name: statistics.mean(row.get(name, 0.0) for row in rows) * 1e3 for name in names}
    return {name: round(ms, 3) for name, ms in times.items() if ms >= 0.005}


def generations_until(end: float, ways: list[str], is_cpu: bool) -> list[dict[str, Any]]:
    """As many as time allows, at least one; the first one shows how long one takes."""
    found: list[dict[str, Any]] = []
    longest = 0.0
    while not found or time.monotonic() + longest < end:
        begin = time.monotonic()
        found.append(new_generation(ways, is_cpu, GENERATION_SECONDS))
        longest = max(longest, time.monotonic() - begin)
        print(f"generation {len(found)}: {longest:.1f} s at most", file=sys.stderr, flush=True)
    return found


def main(ways: list[str], is_cpu: bool, seconds: float) -> None:
    found = generations_until(time.monotonic() + seconds, ways, is_cpu)

    def turns(way: str) -> list[Turn]:
        return [turn for each in found for turn in each["turns"][way]]

    plain = turns(PLAIN[0])
    result: dict[str, Any] = {
        "step_ms": statistics.median(row["wall"] for row in plain if "wall" in row) * 1e3,
        "processor_ms": statistics.median(r["processor"] for r in plain if "processor" in r) * 1e3,
        "generations": len(found),
        "rounds": sum(len(each["shares"][f"{ways[0]} wall"]) for each in found),
    }
    for way in (PLAIN[1], *ways):
        result[way] = {
            "threads_ms": threads_of(turns(way)),
            "lost": sum(each["lost"][way] for each in found),
        }
        for figure in FIGURES:
            shares = [each["shares"].get(f"{way} {figure}") for each in found]
            if all(shares):
                of_generations = [statistics.median(each) for each in shares]
                result[way][figure] = {**middle(of_generations), "all": of_generations}
    print(json.dumps(result))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--generation", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("ways", nargs="*", metavar="WAY")
    options = parser.parse_args()
    usual = [way for way in WAYS if not (options.cpu and way in CUDA_ONLY)]
    if options.generation:
        run_generation(options.ways, options.cpu, options.seconds)
    else:
        main(options.ways or usual, options.cpu, options.seconds)
