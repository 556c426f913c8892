"""What `run --metrics` costs when it is scraped once a second.

usage: metrics_cost.py [--rounds N] [--seconds S]

The same recorded program runs in turn without the exporter, with it, and with it and a scraper at
1 Hz. Two things are measured, both in CPU time, so that other programs on the machine count less:

- what the program notices: the CPU time of its training thread for each step, and of its whole
  process; the change against the run without the exporter, with a 95 % interval over the rounds;
- what the exporter takes, which is a process of its own: its share of one core, and from the
  difference between scraped and not, the CPU time of one scrape.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path

PROGRAM = """
import json, sys, time
import torch
torch.set_num_threads(1)
model = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(6)])
optimizer = torch.optim.AdamW(model.parameters())
data = torch.randn(64, 256)

def step():
    optimizer.zero_grad()
    model(data).square().mean().backward()
    optimizer.step()

for _ in range(50):
    step()
steps, began = 0, time.monotonic()
process, thread = time.process_time(), time.thread_time()
while time.monotonic() - began < float(sys.argv[1]):
    step()
    steps += 1
result = [steps, time.thread_time() - thread, time.process_time() - process]
json.dump(result, open("result.json", "w"))
"""
KINDS = ("without", "not scraped", "scraped")
# Two-sided 95 % quantiles of Student's t, by degrees of freedom.
STUDENT = {1: 12.71, 2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 7: 2.36, 9: 2.26, 11: 2.20, 19: 2.09}


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


def cpu_seconds(process: int) -> float | None:
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Observer(threading.Thread):
    """Looks once a second at what the exporter took; scrapes it, if told to."""

    def __init__(self, log: Path, scrapes: bool) -> None:
        super().__init__(daemon=True)
        self.scrapes = 0
        self.looks: list[tuple[float, float]] = []
        self._log = log
        self._is_scraper = scrapes
        self._stops = threading.Event()

    def run(self) -> None:
        process = None
        while not self._stops.wait(1.0):
            found = re.search(r"http://\S+:(\d+)/metrics", self._log.read_text())
            if found is None:
                continue
            if process is None:
                process = exporter_at(int(found[1]))
            if self._is_scraper:
                try:
                    with urllib.request.urlopen(found[0], timeout=5) as answer:
                        self.scrapes += b"gpumemprof_memory_allocated_bytes" in answer.read()
                except OSError:
                    continue  # It has ended with the program.
            taken = None if process is None else cpu_seconds(process)
            if taken is not None:
                self.looks.append((time.monotonic(), taken))

    def stop(self) -> None:
        self._stops.set()
        self.join()

    def share(self) -> float:
        """CPU seconds of the exporter in one second, from the first look to the last."""
        (first, before), (last, after) = self.looks[0], self.looks[-1]
        return (after - before) / (last - first)


@dataclass
class Run:
    """CPU milliseconds of a step, and what the exporter took beside it."""

    thread_ms: float
    process_ms: float
    share: float
    scrapes: int


def run(folder: Path, seconds: float, kind: str) -> Run:
    words = ["--metrics", ":0"] if kind != "without" else []
    command = [sys.executable, "-m", "gpumemprof", "run", "--cpu", "-f", "-o", "run.gmp"]
    log = folder / "log"
    with log.open("w") as out:
        program = subprocess.Popen(
            [*command, *words, "program.py", str(seconds)], cwd=folder, stdout=out, stderr=out
        )
        observer = Observer(log, kind == "scraped")
        observer.start()
        code = program.wait()
    observer.stop()
    if code != 0 or (kind == "scraped" and observer.scrapes == 0):
        raise SystemExit(f"the program failed, or was not scraped:\n{log.read_text()}")
    steps, thread, process = json.loads((folder / "result.json").read_text())
    share = 0.0 if kind == "without" else observer.share()
    return Run(1000 * thread / steps, 1000 * process / steps, share, observer.scrapes)


def interval(changes: list[float]) -> str:
    text = f"{statistics.mean(changes):+.2f} %"
    if len(changes) > 1:
        quantile = STUDENT[max(known for known in STUDENT if known <= len(changes) - 1)]
        text += f" ± {quantile * statistics.stdev(changes) / len(changes) ** 0.5:.2f} %"
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=10.0)
    flags = parser.parse_args()
    runs: dict[str, list[Run]] = {kind: [] for kind in KINDS}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "program.py").write_text(PROGRAM)
        for number in range(flags.rounds):
            # In changing order, so that a machine that slows down favours none.
            turned = KINDS[number % 3 :] + KINDS[: number % 3]
            for kind in turned:
                runs[kind].append(run(folder, flags.seconds, kind))
    base = runs["without"]
    print(f"{statistics.mean(one.thread_ms for one in base):.3f} CPU ms of the thread a step")
    for kind in KINDS[1:]:
        pairs = list(zip(runs[kind], base))
        thread = [100 * (one.thread_ms / other.thread_ms - 1) for one, other in pairs]
        process = [100 * (one.process_ms / other.process_ms - 1) for one, other in pairs]
        share = 100 * statistics.mean(one.share for one in runs[kind])
        print(f"{kind:<11}: thread {interval(thread)}, process {interval(process)}; the exporter")
        print(f"{'':<11}  takes {share:.2f} % of a core")
    more = statistics.mean(one.share for one in runs["scraped"]) - statistics.mean(
        one.share for one in runs["not scraped"]
    )
    print(f"a scrape: {1000 * more:.1f} CPU ms; {sum(one.scrapes for one in runs['scraped'])} made")


if __name__ == "__main__":
    main()
