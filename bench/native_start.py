"""native_start.py PROGRAM [ROOT]: what the native command takes from start to the demo's report.

With ROOT, in that root file system, in which PROGRAM is. Beside it, for a ratio in the same run,
what Python takes to start and do nothing. The best of many runs is what other load disturbs least.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

DEMO = Path(__file__).resolve().parents[1] / "python/gpumemprof/data/demo.pickle.gz"
RUNS = 200


def milliseconds(words: list[str]) -> tuple[float, float]:
    """One run: on the clock, and of the processor."""
    start = time.perf_counter()
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    wall = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"{' '.join(words)} ended with {process.returncode}")
    return wall * 1e3, (used.ru_utime + used.ru_stime) * 1e3


def measure(what: str, words: list[str]) -> float:
    """Print what many runs took; the best one on the clock."""
    runs = [milliseconds(words) for _ in range(RUNS)]
    walls, processor = zip(*runs)
    print(
        f"{what:<28} best {min(walls):5.1f} ms, median {statistics.median(walls):5.1f} ms;"
        f" processor: best {min(processor):5.1f} ms, median {statistics.median(processor):5.1f} ms"
    )
    return min(walls)


def main(program: str, root: str | None = None) -> None:
    words = [program, "report", str(DEMO)]
    if root is not None:
        copy = Path(root) / DEMO.name
        copy.write_bytes(DEMO.read_bytes())
        words = ["chroot", root, program, "report", f"/{DEMO.name}"]
    native = measure("native report of the demo", words)
    python = measure("python -S -c ''", [sys.executable, "-S", "-c", ""])
    print(f"ratio of the best: {native / python:.2f}")


if __name__ == "__main__":
    main(*sys.argv[1:3])
