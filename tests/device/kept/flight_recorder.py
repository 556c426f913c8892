"""What ``keep=`` costs compared with recording to one file: the program's time, and memory.

Chapters end ten times as often as usual here (every 100,000 events), so what is found is at least
what a user pays. Three measurements, each of which alternates between a file and a folder of
chapters, in pairs of random order, so that drift cancels out:

``step``   a training step of a realistic model. Counted is processor time, by thread: that of the
           program's own threads (all but the recorder's) is what a step pays; that of the whole
           process, the recorder's thread included, is the upper bound that counts even what another
           core does meanwhile. Both as a share of the time of a step, with 95 % intervals.
``hook``   what an event costs the thread that allocates, where nothing else happens: pairs of
           allocate and free in bursts, each short enough for the ring. The difference, times the
           events of a step, as a share of the step: a far sharper figure than that of whole steps.
           The instructions of that thread, where the machine allows counting them.
``writes`` the bytes that the program's threads wrote meanwhile, by the kernel's count: ending a
           chapter is work of the recorder's thread alone, so they write none.

Memory is that of processes of their own, which allocate in a loop and keep some: what they have at
the end more than before they started to record. Prints one line of JSON.

Usage: flight_recorder.py [--cpu] [--seconds N]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable

os.environ["GPUMEMPROF_CHAPTER_EVENTS"] = "100000"
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import gpumemprof
import torch
from instructions import InstructionCounter

RECORDER_THREAD = "gpumemprof"
WARM_STEPS = 5
TURN_SECONDS = 1.0
BURST_PAIRS = 2_000
BURSTS = 40
# Long enough for the recorder's thread to write what came before.
SETTLE_SECONDS = 0.06
KEEP = 64 << 20
MEMORY_PAIRS = 400_000
STEP_SHARE, HOOK_SHARE = 0.45, 0.3  # of the seconds; what remains is for memory


@dataclass
class Cost:
    """Of one turn, for each step or event."""

    wall_s: float
    program_s: float  # processor time of all threads but the recorder's
    recorder_s: float
    instructions: float | None = None


def threads() -> dict[int, str]:
    found = {}
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # it has ended
            found[int(task.name)] = (task / "comm").read_text().strip()
    return found


def thread_seconds(thread: int) -> float:
    try:
        # As pthread_getcpuclockid makes it.
        return time.clock_gettime(((~thread) << 3) | 6)
    except OSError:
        fields = Path(f"/proc/self/task/{thread}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def processor_seconds() -> tuple[float, float]:
    """Of the whole process, and of the recorder's thread."""
    recorder = 0.0
    for thread, name in threads().items():
        if name == RECORDER_THREAD:
            recorder += thread_seconds(thread)
    return time.process_time(), recorder


def written_bytes() -> int | None:
    """By the threads of the program; none if the kernel does not count."""
    total = 0
    for thread, name in threads().items():
        try:
            lines = Path(f"/proc/self/task/{thread}/io").read_text().splitlines()
        except OSError:
            return None
        counts = dict(line.split(": ") for line in lines)
        if "wchar" not in counts:
            return None
        total += 0 if name == RECORDER_THREAD else int(counts["wchar"])
    return total


def make_step(is_cpu: bool) -> tuple[Callable[[], None], Callable[[], None]]:
    if is_cpu:
        from overhead_model import make_small_training

        return make_small_training(), lambda: None
    from workloads import make_training

    return make_training(), torch.cuda.synchronize


class Recorded:
    """A recording that must be whole, and is removed."""

    def __init__(self, path: Path, is_cpu: bool, keep: int | None) -> None:
        self.path, self.chapters, self.events = path, 0, 0
        self._recording = gpumemprof.start(path, cpu=is_cpu, keep=keep)

    def __enter__(self) -> Recorded:
        return self

    def __exit__(self, *_: object) -> None:
        self._recording.stop()
        summary = self._recording.summary
        if summary["lost_events"] or summary["problem"]:
            raise SystemExit(f"the recording is not whole: {summary}")
        self.events = summary["events"]
        if self.path.is_dir():
            names = sorted(file.name for file in self.path.glob("chapter-*.gmp"))
            self.chapters = int(names[-1].removeprefix("chapter-").removesuffix(".gmp"))
            shutil.rmtree(self.path)
        else:
            self.path.unlink()


class Comparison:
    """Turns with and without ``keep=``, in pairs."""

    def __init__(self, folder: Path, is_cpu: bool) -> None:
        self.path, self.is_cpu = folder / "run.gmp", is_cpu
        self.pairs: list[tuple[Cost, Cost]] = []  # without, with
        self.chapters = 0
        self.written: int | None = 0
        self._order = random.Random(2)

    def run(self, seconds: float, turn: Callable[[Recorded], Cost]) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end or len(self.pairs) < 3:
            ways: list[int | None] = [None, KEEP]
            self._order.shuffle(ways)
            took: dict[int | None, Cost] = {}
            for way in ways:
                recorded = Recorded(self.path, self.is_cpu, way)
                with recorded:
                    took[way] = turn(recorded)
                self.chapters += recorded.chapters
            self.pairs.append((took[None], took[KEEP]))

    def added(self, of: Callable[[Cost], float], scale: float) -> dict[str, float]:
        """The median of what keeping adds, times this, with its 95 % interval by drawing again."""
        found = [(of(kept) - of(plain)) * scale for plain, kept in self.pairs]
        draws = random.Random(1)
        medians = sorted(statistics.median(draws.choices(found, k=len(found))) for _ in range(1000))
        middle = statistics.median(found)
        return {"median": middle, "low": medians[25], "high": medians[974], "pairs": len(found)}

    def usual(self, of: Callable[[Cost], float], which: int = 0) -> float:
        return statistics.median(of(pair[which]) for pair in self.pairs)


def measure(work: Callable[[], None], wait: Callable[[], None], times: int) -> Cost:
    """`wait` is part of the time, but not of what the program's threads compute: torch waits for a
    card by asking it again and again."""
    begin, (process, recorder) = time.perf_counter(), processor_seconds()
    for _ in range(times):
        work()
    process_end, recorder_end = processor_seconds()
    wait()
    wall = time.perf_counter() - begin
    recorder_s = recorder_end - recorder
    program_s = process_end - process - recorder_s
    return Cost(wall / times, program_s / times, recorder_s / times)


def compare_steps(folder: Path, is_cpu: bool, seconds: float) -> dict[str, Any]:
    step, wait = make_step(is_cpu)
    for _ in range(30):
        step()
    wait()
    begin = time.perf_counter()
    for _ in range(5):
        step()
    wait()
    times = max(5, round(TURN_SECONDS / ((time.perf_counter() - begin) / 5)))
    with Recorded(folder / "run.gmp", is_cpu, None) as recorded:
        for _ in range(20):
            step()
    events = recorded.events / 20
    compared = Comparison(folder, is_cpu)

    def turn(_: Recorded) -> Cost:
        for _ in range(WARM_STEPS):
            step()
        wait()
        time.sleep(SETTLE_SECONDS)
        before = written_bytes()
        cost = measure(step, wait, times)
        after = written_bytes()
        if before is None or after is None or compared.written is None:
            compared.written = None
        else:
            compared.written += after - before
        return cost

    compared.run(seconds, turn)
    step_s = compared.usual(lambda cost: cost.wall_s)
    return {
        "ms": step_s * 1e3,
        "events": events,
        "chapters": compared.chapters,
        "program_processor_ms": compared.usual(lambda cost: cost.program_s) * 1e3,
        "recorder_processor_ms": [
            compared.usual(lambda cost: cost.recorder_s, which) * 1e3 for which in (0, 1)
        ],
        "program_added_share": compared.added(lambda cost: cost.program_s, 1 / step_s),
        "process_added_share": compared.added(
            lambda cost: cost.program_s + cost.recorder_s, 1 / step_s
        ),
        "wall_added_share": compared.added(lambda cost: cost.wall_s, 1 / step_s),
        "program_written_bytes": compared.written,
    }


def compare_hook(
    folder: Path, is_cpu: bool, seconds: float, step: dict[str, Any]
) -> dict[str, Any]:
    device = "cpu" if is_cpu else "cuda"
    empty = torch.empty
    compared = Comparison(folder, is_cpu)

    def burst() -> tuple[int, int]:
        """Nanoseconds of processor time, and instructions."""
        counted = read()
        begin = time.thread_time_ns()
        for _ in range(BURST_PAIRS):
            empty(1000, device=device)
        took = time.thread_time_ns() - begin
        return took, (read() or 0) - (counted or 0)

    read = InstructionCounter(is_of_thread=True).read
    has_instructions = read() is not None

    def turn(_: Recorded) -> Cost:
        burst()
        found = []
        for _ in range(BURSTS):
            time.sleep(0.004)
            found.append(burst())
        # Nearly every burst is undisturbed; the middle one tells them all.
        seconds = statistics.median(row[0] for row in found) / 1e9
        instructions = statistics.median(row[1] for row in found)
        events = 2 * BURST_PAIRS
        return Cost(0, seconds / events, 0, instructions / events if has_instructions else None)

    compared.run(seconds, turn)
    added_ns = compared.added(lambda cost: cost.program_s, 1e9)
    scale = step["events"] / (step["ms"] * 1e6)
    share = {key: added_ns[key] * scale for key in ("median", "low", "high")}
    return {
        "ns_per_event": compared.usual(lambda cost: cost.program_s) * 1e9,
        "added_ns_per_event": added_ns,
        "added_share_of_step": share,
        "chapters": compared.chapters,
        "added_instructions_per_event": (
            compared.added(lambda cost: cost.instructions or 0, 1) if has_instructions else None
        ),
    }


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def measure_memory(path: Path, is_cpu: bool, keep: int | None) -> None:
    """In a process of its own: prints the mebibytes that recording takes."""
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
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--memory", nargs=2)
    options = parser.parse_args()
    if options.memory:
        path, keep = options.memory
        measure_memory(Path(path), options.cpu, int(keep) or None)
        return
    folder = Path(tempfile.mkdtemp())
    step = compare_steps(folder, options.cpu, options.seconds * STEP_SHARE)
    hook = compare_hook(folder, options.cpu, options.seconds * HOOK_SHARE, step)
    file_mib, kept_mib = (memory(folder, options.cpu, keep) for keep in (0, KEEP))
    shutil.rmtree(folder)
    found = {"step": step, "hook": hook, "file_mib": file_mib, "kept_mib": kept_mib}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
