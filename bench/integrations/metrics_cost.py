"""What `run --metrics` costs the program when it is scraped once a second.

The same recorded program, in turn with and without the exporter, which is scraped at 1 Hz. Steps
per CPU second of the program's own process (all its threads), as it counts them itself; the
exporter is a process of its own. Prints the difference with a 95 % interval over the pairs.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
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
steps, began, cpu = 0, time.monotonic(), time.process_time()
while time.monotonic() - began < float(sys.argv[1]):
    step()
    steps += 1
json.dump([steps, time.process_time() - cpu], open("result.json", "w"))
"""
# Two-sided 95 % quantiles of Student's t, by degrees of freedom.
STUDENT = {
    1: 12.71,
    2: 4.30,
    3: 3.18,
    4: 2.78,
    5: 2.57,
    6: 2.45,
    7: 2.36,
    8: 2.31,
    9: 2.26,
    11: 2.20,
}


class Scraper(threading.Thread):
    """Reads the address once a second until told to stop."""

    def __init__(self, log: Path) -> None:
        super().__init__(daemon=True)
        self.scrapes = 0
        self._log = log
        self._stops = threading.Event()

    def run(self) -> None:
        while not self._stops.wait(1.0):
            found = re.search(r"http://\S+/metrics", self._log.read_text())
            if found is None:
                continue
            try:
                with urllib.request.urlopen(found.group(), timeout=5) as answer:
                    self.scrapes += b"gpumemprof_memory_allocated_bytes" in answer.read()
            except OSError:
                continue  # It has not started, or has ended with the program.

    def stop(self) -> None:
        self._stops.set()
        self.join()


def steps_per_second(folder: Path, seconds: float, with_metrics: bool) -> tuple[float, int]:
    """Of one run; and how often it was scraped."""
    words = ["--metrics", ":0"] if with_metrics else []
    command = [sys.executable, "-m", "gpumemprof", "run", "--cpu", "-f", "-o", "run.gmp"]
    log = folder / "log"
    scraper = Scraper(log)
    with log.open("w") as out:
        program = subprocess.Popen(
            [*command, *words, "program.py", str(seconds)],
            cwd=folder,
            stdout=out,
            stderr=out,
        )
        scraper.start()
        code = program.wait()
    scraper.stop()
    if code != 0 or (with_metrics and scraper.scrapes == 0):
        raise SystemExit(f"the program failed, or was not scraped:\n{log.read_text()}")
    steps, cpu = json.loads((folder / "result.json").read_text())
    return steps / cpu, scraper.scrapes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=8.0)
    flags = parser.parse_args()
    changes, plain, scrapes = [], [], 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "program.py").write_text(PROGRAM)
        for pair in range(flags.pairs):
            found = {}
            # In changing order, so that a machine that slows down favours neither.
            for with_metrics in (False, True) if pair % 2 else (True, False):
                found[with_metrics], count = steps_per_second(folder, flags.seconds, with_metrics)
                scrapes += count
            plain.append(found[False])
            changes.append(100 * (found[True] / found[False] - 1))
            print(f"pair {pair + 1}: {found[False]:.1f} and {found[True]:.1f} steps a CPU second")
            time.sleep(0.1)
    mean = statistics.mean(changes)
    quantile = STUDENT.get(flags.pairs - 1, 2.1)
    half = quantile * statistics.stdev(changes) / flags.pairs**0.5
    print(
        f"{statistics.mean(plain):.1f} steps a CPU second without the exporter; with it, scraped "
        f"{scrapes} times in {flags.pairs} runs, {mean:+.1f} % ± {half:.1f} %"
    )


if __name__ == "__main__":
    main()
