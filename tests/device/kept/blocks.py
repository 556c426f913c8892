"""Blocks of work, recorded to one file or to a folder of chapters in turn, and what differs.

All blocks run in one process: where its memory lies is worth more than what is looked for. Their
order is drawn anew for each round, and a round is compared with itself, so that drift cancels out.
Every round has a third block, which records to one file again: how far two blocks differ that are
the same says how far the result can be trusted.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import statistics
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable

import gpumemprof

RECORDER_THREAD = "gpumemprof"
KEEP = 64 << 20
WAYS: dict[str, int | None] = {"file": None, "again": None, "kept": KEEP}
DRAWS = 2_000
CUT = 0.1  # of the differences, at each end: rounds that something else disturbed
Figures = dict[str, float]


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
    """Of all threads but the recorder's, and of the recorder's."""
    recorder = sum(
        thread_seconds(thread) for thread, name in threads().items() if name == RECORDER_THREAD
    )
    return time.process_time() - recorder, recorder


def physical_cores() -> list[int]:
    """One thread of each core that this process may use: two on one core slow each other down."""
    found: dict[str, int] = {}
    for core in sorted(os.sched_getaffinity(0)):
        siblings = Path(f"/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list")
        found.setdefault(siblings.read_text() if siblings.exists() else str(core), core)
    return list(found.values())


class OwnCore:
    """This thread on a core of its own, as long as it is open; the others elsewhere.

    Attributes:
        is_there: whether there are enough cores.
    """

    def __init__(self) -> None:
        self._before = os.sched_getaffinity(0)
        cores = physical_cores()
        self.is_there = len(cores) >= 3
        self._mine = {cores[0]}

    def __enter__(self) -> OwnCore:
        if self.is_there:
            self._move(self._before - self._mine)
            os.sched_setaffinity(0, self._mine)
        return self

    def __exit__(self, *_: object) -> None:
        if self.is_there:
            self._move(self._before)
            os.sched_setaffinity(0, self._before)

    def send_away_recorder(self) -> None:
        """A new thread begins where the one is that started it."""
        if self.is_there:
            self._move(self._before - self._mine, RECORDER_THREAD)

    @staticmethod
    def _move(cores: set[int], name: str | None = None) -> None:
        for thread, its_name in threads().items():
            if name in (None, its_name):
                with contextlib.suppress(OSError):  # it has ended
                    os.sched_setaffinity(thread, cores)


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


def middle_mean(values: list[float], cut: float = CUT) -> float:
    """The mean without the extremes."""
    rows = sorted(values)
    left = int(len(rows) * cut)
    return statistics.fmean(rows[left : len(rows) - left])


def with_interval(values: list[float], scale: float) -> dict[str, float]:
    """The mean of the middle, times this, with its 95 % interval by drawing again."""
    draws = random.Random(1)
    means = sorted(middle_mean(draws.choices(values, k=len(values))) for _ in range(DRAWS))
    low, high = means[int(DRAWS * 0.025)], means[int(DRAWS * 0.975)]
    return {
        "mean": middle_mean(values) * scale,
        "low": low * scale,
        "high": high * scale,
        "rounds": len(values),
    }


@dataclass
class Rounds:
    """Blocks of work in each way, round after round."""

    path: Path
    is_cpu: bool
    figures: dict[str, list[Figures]] = field(default_factory=lambda: {way: [] for way in WAYS})
    chapters: int = 0

    def run(self, seconds: float, block: Callable[[], Figures]) -> None:
        order, end = random.Random(2), time.monotonic() + seconds
        while time.monotonic() < end or len(self.figures["file"]) < 3:
            for way in order.sample(list(WAYS), len(WAYS)):
                recorded = Recorded(self.path, self.is_cpu, WAYS[way])
                with recorded:
                    self.figures[way].append(block())
                self.chapters += recorded.chapters

    def usual(self, figure: str, way: str = "file") -> float:
        return statistics.median(row[figure] for row in self.figures[way])

    def added(self, figure: str, scale: float = 1.0) -> dict[str, float]:
        """What keeping adds, compared with the two blocks of its round that do not keep."""
        rows = zip(self.figures["kept"], self.figures["file"], self.figures["again"], strict=True)
        return with_interval(
            [kept[figure] - (one[figure] + other[figure]) / 2 for kept, one, other in rows], scale
        )

    def unlike_itself(self, figure: str, scale: float = 1.0) -> dict[str, float]:
        """The same of the two blocks that are alike: it should be zero."""
        rows = zip(self.figures["again"], self.figures["file"], strict=True)
        return with_interval([one[figure] - other[figure] for one, other in rows], scale)
