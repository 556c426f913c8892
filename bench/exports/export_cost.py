"""Write a long run in every format of ``convert``, with what each takes, beside a peer in one run.

usage: export_cost.py [EVENTS] [WINDOW]

The default is 3,000,000 events, which are made by build/bench/make_long_run (preset bench). With
WINDOW, the recording is read in windows of so many events, whatever its size. Needs gpumemprof with
PyArrow and pandas installed. The peer writes one table, the allocations, with pandas.

Seconds are of the processor (user and system), so that other programs do not count; the peak
resident size is the one that the system reports for the process.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MAKE = ROOT / "build" / "bench" / "make_long_run"
FORMATS = ("folded", "pprof", "speedscope", "perfetto", "csv", "parquet", "arrow")
PEER = """
import sys
import gpumemprof
gpumemprof.load(sys.argv[1]).allocations.to_pandas().to_csv(sys.argv[2], index=False)
"""


def measured(words: list[str]) -> tuple[float, int]:
    """Seconds of the processor, and the peak of resident bytes, of a command that succeeds."""
    with open(os.devnull, "w") as nowhere:  # noqa: PTH123
        process = subprocess.Popen(words, stdout=nowhere)
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(words)} failed with {process.returncode}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def size_of(path: Path) -> int:
    if path.is_dir():
        return sum(one.stat().st_size for one in path.iterdir())
    return path.stat().st_size


def main() -> None:
    events = int(sys.argv[1]) if len(sys.argv) > 1 else 3_000_000
    if len(sys.argv) > 2:
        os.environ["GPUMEMPROF_WINDOW_EVENTS"] = sys.argv[2]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run = folder / "run.gmp"
        words = [str(MAKE), str(run), "--events", str(events)]
        made = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
        print(f"{made['events']:,} events, {run.stat().st_size / 1e6:.1f} MB")
        print(f"{'format':>12} {'CPU':>8} {'peak RSS':>10} {'written':>10}")
        for table_format in FORMATS:
            out = folder / table_format
            words = [sys.executable, "-m", "gpumemprof", "convert", str(run), str(out)]
            seconds, resident = measured([*words, "--to", table_format])
            print_row(table_format, seconds, resident, size_of(out))
        out = folder / "peer.csv"
        seconds, resident = measured([sys.executable, "-c", PEER, str(run), str(out)])
        print_row("pandas, 1 table", seconds, resident, size_of(out))


def print_row(name: str, seconds: float, resident: int, written: int) -> None:
    print(f"{name:>15} {seconds:>6.2f} s {resident / 1e6:>7.0f} MB {written / 1e6:>7.1f} MB")


if __name__ == "__main__":
    main()
