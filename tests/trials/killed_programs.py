"""Programs that are killed at random moments: `live --once` says what `report` says.

usage: python tests/trials/killed_programs.py [--programs N] [--seed N]

Each program records itself with GPUMEMPROF=1 and is killed at a moment that the seed decides, up to
six seconds after its first tensor. Exits with 1 if a figure differs for any of them. A program that
is killed before its first event may leave an empty file, of which both say that nothing is in it.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HEAD = """
import os, random, sys, threading, time
import torch
chance = random.Random(int(sys.argv[1]))
kept = []
print("begun", flush=True)
"""
PROGRAMS = {
    "few": "while True: kept.append(torch.ones(chance.randrange(1, 9999))); time.sleep(0.02)",
    "many": """
while True:
    kept.append(torch.ones(64))
    [torch.ones(chance.randrange(1, 999)) for _ in range(500)]""",
    "inference": """
model = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(4)]).eval()
with torch.no_grad():
    while True: model(torch.randn(chance.randrange(1, 64), 64)); time.sleep(0.001)""",
    "training": """
model = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(4)])
optimizer = torch.optim.Adam(model.parameters())
while True:
    model(torch.randn(chance.randrange(1, 64), 64)).square().mean().backward()
    optimizer.step(); optimizer.zero_grad()""",
    "threads": """
def work():
    mine = []
    while True: mine.append(torch.ones(chance.randrange(1, 99))); torch.ones(64); time.sleep(0.0005)
for _ in range(4): threading.Thread(target=work, daemon=True).start()
time.sleep(600)""",
    "tags": """
import gpumemprof
while True:
    with gpumemprof.tag(f"part{chance.randrange(9)}"):
        kept.append(torch.ones(chance.randrange(1, 99)))
    gpumemprof.step(); time.sleep(0.0005)""",
}


def answer(*words: str) -> dict:
    """What a command prints as JSON; nothing where it refuses the file."""
    done = subprocess.run(
        [sys.executable, "-m", "gpumemprof", *words], capture_output=True, text=True, check=False
    )
    return json.loads(done.stdout or "{}")


def live_figures(path: Path) -> dict:
    (recording,) = answer("live", "--once", "--json", str(path))["recordings"]
    return {
        device["device"]: {
            "events": device["events"],
            "is_exact": device["is_exact"],
            "allocated_bytes": device["allocated_bytes"],
            "active_bytes": device["active_bytes"],
            "peak_allocated_bytes": device["peak_allocated_bytes"],
            "out_of_memory": device["out_of_memory"],
            "lost_events": device["lost_events"],
        }
        for device in recording.get("devices", ())
    }


def reported_figures(path: Path) -> dict:
    report = answer("report", "--json", str(path))
    return {
        device["device"]: {
            "events": device["events"],
            "is_exact": device["exact_from_event"] == 0,
            "allocated_bytes": device["end"]["allocated_bytes"],
            "active_bytes": device["end"]["active_bytes"],
            "peak_allocated_bytes": device["peak"]["allocated_bytes"],
            "out_of_memory": device["counters"]["ooms"],
            "lost_events": device["counters"].get("lost_events", 0),
        }
        for device in report.get("devices", ())
    }


def killed(folder: Path, kind: str, chance: random.Random) -> Path:
    """A recording whose program was killed."""
    program = folder / f"{kind}.py"
    program.write_text(HEAD + PROGRAMS[kind])
    output = folder / f"{kind}.{chance.randrange(10**9)}.gmp"
    environment = {**os.environ, "GPUMEMPROF": "1", "GPUMEMPROF_OUTPUT": str(output)}
    words = [sys.executable, str(program), str(chance.randrange(10**9))]
    with subprocess.Popen(words, env=environment, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        time.sleep(chance.random() ** 2 * 6)
        process.kill()
    return output


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    chance = random.Random(arguments.seed)
    different = absent = events = 0
    for number in range(arguments.programs):
        kind = list(PROGRAMS)[number % len(PROGRAMS)]
        with tempfile.TemporaryDirectory() as made:
            path = killed(Path(made), kind, chance)
            if not path.exists():
                absent += 1
                continue
            live, reported = live_figures(path), reported_figures(path)
        events += sum(device["events"] for device in reported.values())
        if live != reported:
            different += 1
            print(f"{number} ({kind}): live {live}, report {reported}", file=sys.stderr)
    print(
        f"{arguments.programs} programs killed, {events} events: "
        f"{different} differ, {absent} killed before they had a file"
    )
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()
