"""Many long recordings, on one machine and on a Ray cluster: the same report, bounded memory.

    python bench/ranks/cluster.py [--recordings 64] [--events 10000000] [--distinct 4]
        [--folder FOLDER] [--export]

Makes a few distinct recordings with ``build/bench/make_long_run`` (preset ``bench``) and links them
under other names, so that disk and time stay small. Then ``gpumemprof ranks --json`` reads all of
them: with the processes of this machine, on Ray with two workers, and on Ray again while one worker
is ended with kill -9. With --export, ``gpumemprof export`` too. Prints one line of JSON: seconds,
the most memory of any process that reads, and whether all results are equal. Exits with 1 if not.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
MAKER = ROOT / "build/bench/make_long_run"
LEAST_WORK_SECONDS = 2.0
PAGE = os.sysconf("SC_PAGE_SIZE")


def make(folder: Path, recordings: int, events: int, distinct: int, maker: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(distinct):
        path = folder / f"rank{number:03}.gmp"
        if not path.exists():
            # They differ in their length.
            words = [str(maker), str(path), "--events", str(events + number * 1000)]
            subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    for number in range(distinct, recordings):
        path = folder / f"rank{number:03}.gmp"
        if not path.exists():
            os.link(folder / f"rank{number % distinct:03}.gmp", path)


class Watched:
    """A command, and all processes that it started, also through Ray's own."""

    def __init__(self, words: list[str]) -> None:
        self.mark = uuid.uuid4().hex
        self.begin = time.monotonic()
        self.most_bytes = 0
        self.killed = 0
        environment = {
            **os.environ,
            "GPUMEMPROF_BENCH_MARK": self.mark,
            "RAY_AUTH_MODE": "disabled",
        }
        self._output = tempfile.TemporaryFile()  # noqa: SIM115
        self.process = subprocess.Popen(words, stdout=self._output, env=environment)
        self._seconds: dict[int, float] = {}

    def look(self, kills: bool) -> None:
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal():
                self._look_at(entry, kills)

    def _look_at(self, entry: Path, kills: bool) -> None:
        try:
            if self.mark.encode() not in (entry / "environ").read_bytes():
                return
            words = (entry / "cmdline").read_bytes()
            memory = int((entry / "statm").read_text().split()[1]) * PAGE
            parts = (entry / "stat").read_text().rpartition(")")[2].split()
        except (OSError, IndexError):
            return
        is_ours = b"gpumemprof" in words or words.startswith((b"ray::_read_chunk", b"ray::write"))
        seconds = (int(parts[11]) + int(parts[12])) / os.sysconf("SC_CLK_TCK")
        self._seconds[int(entry.name)] = seconds
        if not is_ours:
            return
        self.most_bytes = max(self.most_bytes, memory)
        is_task = words.startswith(b"ray::")
        if kills and not self.killed and is_task and seconds > LEAST_WORK_SECONDS:
            os.kill(int(entry.name), signal.SIGKILL)
            self.killed += 1

    def finish(self, kills: bool = False) -> tuple[dict[str, Any], bytes]:
        while self.process.poll() is None:
            self.look(kills)
            time.sleep(0.2)
        self._output.seek(0)
        figures = {
            "code": self.process.returncode,
            "wall_seconds": round(time.monotonic() - self.begin, 1),
            "cpu_seconds_seen": round(sum(self._seconds.values()), 1),
            "most_mib": round(self.most_bytes / 2**20),
            "killed": self.killed,
        }
        return figures, self._output.read()


def digest(folder: Path) -> str:
    found = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            found.update(str(path.relative_to(folder)).encode() + path.read_bytes())
    return found.hexdigest()


def compare(folder: Path, exports: bool, scratch: Path) -> tuple[dict[str, Any], bool]:
    gpumemprof = [sys.executable, "-m", "gpumemprof"]
    results: dict[str, Any] = {}
    found = []
    for name, ray, kills in (
        ("embedded", [], False),
        ("ray", ["--ray", "local"], False),
        ("ray_killed", ["--ray", "local"], True),
    ):
        if exports:
            out = scratch / name
            words = [*gpumemprof, "export", "--to", "parquet", *ray, str(out), str(folder)]
        else:
            words = [*gpumemprof, "ranks", "--json", *ray, str(folder)]
        figures, output = Watched(words).finish(kills)
        results[name] = figures
        found.append(digest(scratch / name) if exports else hashlib.sha256(output).hexdigest())
    is_equal = len(set(found)) == 1
    is_right = is_equal and all(one["code"] == 0 for one in results.values())
    results["is_equal"] = is_equal
    return results, is_right and results["ray_killed"]["killed"] == 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--recordings", type=int, default=64)
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--distinct", type=int, default=4)
    parser.add_argument("--maker", type=Path, default=MAKER)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--export", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary) / "job"
        make(folder, options.recordings, options.events, options.distinct, options.maker)
        results, is_right = compare(folder, options.export, Path(temporary))
    counts = {"recordings": options.recordings, "events": options.events}
    print(json.dumps({**counts, "distinct": options.distinct, **results, "is_right": is_right}))
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
