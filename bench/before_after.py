"""Two builds of gpumemprof side by side: reading, replaying, simulating, recording, viewing.

usage: python bench/before_after.py BEFORE AFTER [--events N] [--rounds N] [--only NAME ...]

BEFORE and AFTER are folders with the two builds' ``python``. The builds take turns, each process
measuring one of them, so that other load meets both. Shown are medians, and the ratio of the two
builds in the same round: its median, lowest and highest. CPU time is of all threads; on a shared
machine it says more than wall time.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from make_snapshot import make

HERE = Path(__file__).resolve().parent

# Each prints a name, wall seconds and CPU seconds for everything it measures.
TIMER = """
import contextlib, json, sys, time
@contextlib.contextmanager
def timed(name):
    wall, cpu = time.perf_counter(), time.process_time()
    yield
    print(json.dumps([name, time.perf_counter() - wall, time.process_time() - cpu]))
"""
READ = """
import gpumemprof
snapshot, recorded, bench = sys.argv[1:4]
for kind, path in (("snapshot", snapshot), (".gmp", recorded)):
    with timed(f"read a {kind}"):
        recording = gpumemprof.load(path)
    with timed(f"replay a {kind}"):
        recording.devices[0].peak.allocated_bytes
    with timed(f"report on a {kind}"):
        recording.report()
    del recording
"""
SIMULATE = """
import gpumemprof
recording = gpumemprof.load(sys.argv[1])
recording.devices[0].peak.allocated_bytes
with timed("simulate 2 settings"):
    recording.replay(["expandable_segments:True", "max_split_size_mb:128"])
"""
RECORD = """
sys.path.insert(0, sys.argv[3])
import capture_overhead as bench
for loop in (bench.pairs, bench.varied):
    for way, shown in (("gpumemprof", "stacks"), ("gpumemprof_no_stacks", "no stacks")):
        with bench.watched(way):
            bench.deep(bench.DEPTH, loop, 1000)
            with timed(f"record {loop.__name__}, {shown}"):
                bench.deep(bench.DEPTH, loop, 10 * bench.PAIRS)
"""
# The server's CPU time counts, from its start to its last answer.
VIEW = """
import os, re, subprocess, urllib.request
ticks = os.sysconf("SC_CLK_TCK")
def spent(pid):
    fields = open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / ticks
began = time.perf_counter()
command = [sys.executable, "-m", "gpumemprof", "view", "--no-browser", sys.argv[1]]
server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
for line in server.stdout:
    if found := re.search(r"(http://\\S+?)/?\\?token=(\\w+)", line):
        break
address, token = found.groups()
def ask(question):
    joint = "&" if "?" in question else "?"
    with urllib.request.urlopen(f"{address}/api/{question}{joint}token={token}") as answer:
        return json.load(answer)
events = ask("meta")["files"][0]["devices"][0]["events"]
device = "file=0&device=0"
print(json.dumps(["viewer: until ready", time.perf_counter() - began, spent(server.pid)]))
for name, questions in {
    "viewer: first drawing": [
        f"groups?{device}&by=source", f"tile?{device}&by=source&axis=event&level=0&index=0"],
    "viewer: 5 moments": [
        question
        for at in range(events // 10, events, events // 5)
        for question in (f"flame?{device}&position={at}&by=stack",
                         f"segments?{device}&position={at}&by=line",
                         f"allocations?{device}&live_at={at}&limit=100")],
}.items():
    began, before = time.perf_counter(), spent(server.pid)
    for question in questions:
        ask(question)
    print(json.dumps([name, time.perf_counter() - began, spent(server.pid) - before]))
server.terminate()
server.wait()
"""
PROGRAMS = {"read": READ, "simulate": SIMULATE, "record": RECORD, "view": VIEW}


CLOCKS = ("cpu", "wall")


class Spent(NamedTuple):
    wall: float
    cpu: float


def measure(build: Path, program: str, arguments: list[str]) -> dict[str, Spent]:
    command = [str(build / "python"), "-c", TIMER + program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{build}: {done.stderr[-2000:]}")
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('["')]
    return {name: Spent(wall, cpu) for name, wall, cpu in rows}


def in_turns(
    builds: list[Path], program: str, arguments: list[str], rounds: int
) -> dict[str, list[tuple[Spent, Spent]]]:
    """Pairs of before and after, by name; the build that begins changes from round to round."""
    found: dict[str, list[tuple[Spent, Spent]]] = {}
    for turn in range(rounds):
        order = [0, 1] if turn % 2 == 0 else [1, 0]
        results = {index: measure(builds[index], program, arguments) for index in order}
        for name in results[0]:
            found.setdefault(name, []).append((results[0][name], results[1][name]))
    return found


def shown_ratio(pairs: list[tuple[float, float]]) -> str:
    ratios = sorted(after / before for before, after in pairs if before > 0)
    if not ratios:
        return "too short"
    return f"{statistics.median(ratios):.3f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"


def print_table(found: dict[str, list[tuple[Spent, Spent]]]) -> None:
    sides = " | ".join(f"{clock} before | {clock} after | ratio (spread)" for clock in CLOCKS)
    print(f"| what | {sides} |")
    print("|---" * 7 + "|")
    for name, pairs in found.items():
        cells = []
        for clock in CLOCKS:
            times = [(getattr(one, clock), getattr(other, clock)) for one, other in pairs]
            before, after = (statistics.median(side) for side in zip(*times))
            cells += [f"{before:.3f} s", f"{after:.3f} s", shown_ratio(times)]
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("builds", type=Path, nargs=2, metavar="BUILD", help="before and after")
    parser.add_argument("--events", type=int, default=3_000_000, help="of the snapshot (3,000,000)")
    parser.add_argument("--rounds", type=int, default=9, help="turns of both builds (9)")
    parser.add_argument("--only", nargs="+", choices=PROGRAMS, default=list(PROGRAMS))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        snapshot, recorded = Path(folder) / "run.pickle", Path(folder) / "run.gmp"
        print(f"{make(arguments.events, snapshot):,} events, {arguments.rounds} rounds")
        convert = ["-m", "gpumemprof", "convert", str(snapshot), str(recorded), "--to", "gmp"]
        subprocess.run([arguments.builds[0] / "python", *convert], check=True, capture_output=True)
        files = [str(snapshot), str(recorded), str(HERE)]
        found: dict[str, list[tuple[Spent, Spent]]] = {}
        for name in arguments.only:
            found |= in_turns(arguments.builds, PROGRAMS[name], files, arguments.rounds)
        print_table(found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
