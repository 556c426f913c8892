"""Read and replay a large snapshot with gpumemprof, and load the same file with pickle, in one run.

usage: snapshot_reading.py [EVENTS]

The default is 3,000,000 events; needs gpumemprof installed, and about 3 GB of memory. Prints a
table of ratios: these are what counts, since machines differ and are shared. Each figure is the
best of a few runs, each in its own process; the peak resident size is the one the system reports.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from make_snapshot import make

RUNS = 5

# Not getrusage: a child inherits the peak of the process it was forked from.
RESIDENT = """
def peak_resident():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))
"""

PICKLE = """
import pickle, sys, time
start = time.perf_counter()
with open(sys.argv[1], "rb") as file:
    snapshot = pickle.load(file)
print(time.perf_counter() - start, peak_resident())
"""

OURS = """
import sys, time
import gpumemprof
start = time.perf_counter()
recording = gpumemprof.load(sys.argv[1])
recording.devices[0].peak.allocated_bytes
print(time.perf_counter() - start, peak_resident())
"""


def measured(program: str, path: Path, runs: int) -> tuple[float, int]:
    """The shortest time and the lowest peak resident bytes of a few runs."""
    results = []
    for _ in range(runs):
        out = subprocess.run(
            [sys.executable, "-c", RESIDENT + program, str(path)],
            check=True,
            capture_output=True,
            text=True,
        ).stdout.split()
        results.append((float(out[0]), int(out[1])))
    return min(seconds for seconds, _ in results), min(size for _, size in results)


def main() -> None:
    events = int(sys.argv[1]) if len(sys.argv) > 1 else 3_000_000
    with tempfile.TemporaryDirectory() as folder:
        rows = {}
        for count in (events // 10, events):
            path = Path(folder) / f"{count}.pickle"
            made = make(count, path)
            path.read_bytes()  # so that both readers find the file in the page cache
            ours = measured(OURS, path, RUNS)
            rows[made] = (path.stat().st_size, ours, measured(PICKLE, path, 2))
        head = ("events", "file", "pickle.load", "gpumemprof", "ratio", "resident/file")
        print("{:>10} {:>9} {:>12} {:>11} {:>7} {:>14}".format(*head))
        for made, (size, ours, theirs) in rows.items():
            print(
                f"{made:>10,} {size / 1e6:>6.0f} MB {theirs[0]:>10.2f} s {ours[0]:>9.3f} s"
                f" {theirs[0] / ours[0]:>6.1f}x {ours[1] / size:>14.2f}"
            )
        (few, few_row), (many, many_row) = rows.items()
        growth = many_row[1][0] / few_row[1][0]
        print(f"{many / few:.1f} times the events cost {growth:.1f} times the time")
        summary = {
            "events": many,
            "ratio_to_pickle": many_row[2][0] / many_row[1][0],
            "resident_over_file": many_row[1][1] / many_row[0],
            "growth_of_events": many / few,
            "growth_of_time": growth,
        }
        print(json.dumps(summary))


if __name__ == "__main__":
    main()
