"""What `run --metrics` costs when it is scraped once a second.

usage: metrics_cost.py [--blocks N] [--seconds S] [--add FILE]

One recorded program runs with the exporter beside it. A block has three stretches of S seconds, in
random order: the exporter is halted (SIGSTOP), it runs, it runs and is scraped at 1 Hz. So a
stretch is compared with others of the same process, a few seconds away. All is CPU time, so that
other programs on the machine count less:

- what the program notices: the CPU time of its training thread for each step, and of its whole
  process; the mean change within a block, with its 95 % interval;
- what the exporter takes, which is a process of its own: its share of one core, and from the
  difference between scraped and not, the CPU time of one scrape.

With --add, the blocks are added to those in a file, so that a long measurement can be made in
pieces.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

# Every 5 steps: the time, the steps so far, the CPU seconds of the thread and of the process.
PROGRAM = """
import json, os, sys, time
import torch
torch.set_num_threads(1)
model = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(6)])
optimizer = torch.optim.AdamW(model.parameters())
data = torch.randn(64, 256)

def step():
    optimizer.zero_grad()
    model(data).square().mean().backward()
    optimizer.step()

marks, steps = [], 0
while not os.path.exists("stop"):
    for _ in range(5):
        step()
    steps += 5
    marks.append([time.monotonic(), steps, time.thread_time(), time.process_time()])
json.dump(marks, open("marks.json", "w"))
"""
KINDS = ("halted", "not scraped", "scraped")
# As Prometheus asks.
HEADERS = {
    "Accept": "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5",
    "Accept-Encoding": "gzip",
}
# Two-sided 95 % quantiles of Student's t, by degrees of freedom.
STUDENT = {1: 12.71, 2: 4.30, 3: 3.18, 5: 2.57, 9: 2.26, 19: 2.09, 29: 2.05, 59: 2.00, 99: 1.98}


def exporter_at(port: int) -> int | None:
    """The process that listens at a port of this machine."""
    sockets = set()
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == "0A" and int(fields[1].rpartition(":")[2], 16) == port:
            sockets.add(f"socket:[{fields[9]}]")
    processes = (int(folder.name) for folder in Path("/proc").glob("[0-9]*"))
    return next((process for process in processes if has_open(process, sockets)), None)


def has_open(process: int, sockets: set[str]) -> bool:
    try:
        files = list(Path(f"/proc/{process}/fd").iterdir())
        return any(str(file.readlink()) in sockets for file in files)
    except OSError:
        return False  # It has ended, or is somebody else's.


def cpu_seconds(process: int) -> float:
    """Of another process, to the nanosecond: its clock, as clock_getcpuclockid() numbers it."""
    return time.clock_gettime(-8 * (process + 1) + 2)


def wait_for(condition: Any) -> Any:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.1)
    raise SystemExit("the program did not start")


class Exporter:
    """The process beside the program."""

    def __init__(self, folder: Path) -> None:
        log = folder / "log"
        address = wait_for(lambda: re.search(r"http://\S+:(\d+)/metrics", log.read_text()))
        self.address = address[0]
        self.process = wait_for(lambda: exporter_at(int(address[1])))
        wait_for(lambda: b"memory_allocated_bytes" in self.scrape())

    def scrape(self) -> bytes:
        plain = urllib.request.Request(self.address)
        with urllib.request.urlopen(plain, timeout=30) as answer:
            found: bytes = answer.read()
        return found

    def scrape_as_prometheus(self) -> None:
        request = urllib.request.Request(self.address, headers=HEADERS)
        with urllib.request.urlopen(request, timeout=30) as answer:
            if len(answer.read()) < 100:
                raise SystemExit("a scrape had no figures")

    def stretch(self, kind: str, seconds: float) -> dict[str, Any]:
        """Let some time pass; when it was, and what the exporter took."""
        os.kill(self.process, signal.SIGSTOP if kind == "halted" else signal.SIGCONT)
        if kind != "halted":
            self.scrape()  # Catches up with what it missed.
        began, taken = time.monotonic(), cpu_seconds(self.process)
        scrapes = 0
        while (left := began + seconds - time.monotonic()) > 0:
            time.sleep(min(left, 0.5 if scrapes == 0 else 1.0))
            if kind == "scraped" and time.monotonic() < began + seconds:
                self.scrape_as_prometheus()
                scrapes += 1
        ended = time.monotonic()
        share = (cpu_seconds(self.process) - taken) / (ended - began)
        return {"began": began, "ended": ended, "share": share, "scrapes": scrapes}


def with_steps(stretch: dict[str, Any], marks: list[list[float]]) -> dict[str, Any]:
    """Adds the CPU milliseconds of a step."""
    inside = [mark for mark in marks if stretch["began"] <= mark[0] <= stretch["ended"]]
    if len(inside) < 2:
        raise SystemExit("the program did too few steps: give more --seconds")
    first, last = inside[0], inside[-1]
    steps = last[1] - first[1]
    thread, process = (1000 * (last[at] - first[at]) / steps for at in (2, 3))
    return {**stretch, "thread_ms": thread, "process_ms": process}


def measure(folder: Path, blocks: int, seconds: float) -> list[dict[str, Any]]:
    (folder / "program.py").write_text(PROGRAM)
    words = ["run", "--cpu", "-f", "-o", "run.gmp", "--metrics", ":0", "program.py"]
    with (folder / "log").open("w") as out:
        program = subprocess.Popen(
            [sys.executable, "-m", "gpumemprof", *words], cwd=folder, stdout=out, stderr=out
        )
    found = []
    try:
        exporter = Exporter(folder)
        for _ in range(blocks):
            order = random.sample(KINDS, len(KINDS))
            found.append({kind: exporter.stretch(kind, seconds) for kind in order})
        os.kill(exporter.process, signal.SIGCONT)
    finally:
        (folder / "stop").touch()
        program.wait()
    marks = json.loads((folder / "marks.json").read_text())
    return [{kind: with_steps(one, marks) for kind, one in block.items()} for block in found]


def interval(changes: list[float], unit: str) -> str:
    text = f"{statistics.mean(changes):+.2f}"
    if len(changes) > 1:
        quantile = STUDENT[max(known for known in STUDENT if known <= len(changes) - 1)]
        text += f" ± {quantile * statistics.stdev(changes) / len(changes) ** 0.5:.2f}"
    return f"{text} {unit}"


def show(blocks: list[dict[str, Any]]) -> None:
    base = statistics.mean(block["halted"]["thread_ms"] for block in blocks)
    print(f"{len(blocks)} blocks; {base:.3f} CPU ms of the thread a step with the exporter halted")
    for kind in KINDS[1:]:
        changes = {
            part: [100 * (block[kind][part] / block["halted"][part] - 1) for block in blocks]
            for part in ("thread_ms", "process_ms")
        }
        share = 100 * statistics.mean(block[kind]["share"] for block in blocks)
        print(f"{kind:<11}: thread {interval(changes['thread_ms'], '%')}, process", end=" ")
        print(f"{interval(changes['process_ms'], '%')}; exporter {share:.3f} % of a core")
    each = [
        1000
        * (block["scraped"]["share"] - block["not scraped"]["share"])
        * (block["scraped"]["ended"] - block["scraped"]["began"])
        / block["scraped"]["scrapes"]
        for block in blocks
    ]
    count = sum(block["scraped"]["scrapes"] for block in blocks)
    print(f"a scrape: {interval(each, 'CPU ms')}; {count} made")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--blocks", type=int, default=30)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--add", type=Path, metavar="FILE")
    flags = parser.parse_args()
    blocks: list[dict[str, Any]] = []
    if flags.add is not None and flags.add.exists():
        blocks = json.loads(flags.add.read_text())
    with tempfile.TemporaryDirectory() as name:
        blocks += measure(Path(name), flags.blocks, flags.seconds)
    if flags.add is not None:
        flags.add.write_text(json.dumps(blocks))
    show(blocks)


if __name__ == "__main__":
    main()
