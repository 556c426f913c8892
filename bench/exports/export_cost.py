"""Write long runs in every format of ``convert``, with what each takes, beside a peer in one run.

usage: export_cost.py [EVENTS ...] [--window EVENTS] [--formats NAME ...]

The default is 3,000,000 events; several lengths show how memory grows with them. The runs are made
by build/bench/make_long_run (preset bench). Files above 8 MiB are read in windows; with --window,
all of them, in windows of so many events. Needs gpumemprof with PyArrow and pandas installed. The
peer writes one table, the allocations, with pandas.

Seconds are of the processor (user and system), so that other programs do not count; the peak
resident size is the one that the system reports for the process.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MAKE = ROOT / "build" / "bench" / "make_long_run"
FORMATS = ("folded", "pprof", "speedscope", "perfetto", "csv", "parquet", "arrow")
PEER_NAME = "pandas, 1 table"
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
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("events", type=int, nargs="*", default=[3_000_000])
    parser.add_argument("--window", type=int)
    parser.add_argument("--formats", nargs="+", default=[*FORMATS, PEER_NAME])
    flags = parser.parse_args()
    if flags.window is not None:
        os.environ["GPUMEMPROF_WINDOW_EVENTS"] = str(flags.window)
    peaks: dict[str, list[int]] = {}
    with tempfile.TemporaryDirectory() as name:
        for events in flags.events:
            run = Path(name) / f"{events}.gmp"
            words = [str(MAKE), str(run), "--events", str(events)]
            made = subprocess.run(words, check=True, capture_output=True, text=True).stdout
            size = run.stat().st_size / 1e6
            print(f"{json.loads(made)['events']:,} events, {size:.1f} MB", flush=True)
            print(f"{'format':>15} {'CPU':>8} {'peak RSS':>10} {'written':>10}")
            for kind in flags.formats:
                peaks.setdefault(kind, []).append(measure_format(kind, run, Path(name) / "out"))
            run.unlink()
    if len(flags.events) > 1:
        print(f"peak RSS of {flags.events[-1]:,} events as a multiple of {flags.events[0]:,}:")
        for kind, found in peaks.items():
            print(f"{kind:>15} {found[-1] / found[0]:.2f}")


def measure_format(kind: str, run: Path, out: Path) -> int:
    """Convert, print what it took, and remove what was written; the peak of resident bytes."""
    words = [sys.executable, "-m", "gpumemprof", "convert", str(run), str(out), "--to", kind]
    if kind == PEER_NAME:
        words = [sys.executable, "-c", PEER, str(run), str(out)]
    seconds, resident = measured(words)
    print_row(kind, seconds, resident, size_of(out))
    if out.is_dir():
        shutil.rmtree(out)
    else:
        out.unlink()
    return resident


def print_row(name: str, seconds: float, resident: int, written: int) -> None:
    print(
        f"{name:>15} {seconds:>6.2f} s {resident / 1e6:>7.0f} MB {written / 1e6:>7.1f} MB",
        flush=True,
    )


if __name__ == "__main__":
    main()
