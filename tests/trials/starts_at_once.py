"""Processes that start at the same instant with one GPUMEMPROF_OUTPUT: each has its recording.

usage: python tests/trials/starts_at_once.py [--processes N] [--rounds N] [--keep SIZE]

Each process is forked from one that has imported torch, waits until all are there, and then starts
to record as GPUMEMPROF=1 does. It allocates a number of bytes of its own, so that a recording tells
whose it is. Exits with 1 if one is missing, is there twice or does not open.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

import torch


def record(number: int, waits: int) -> None:
    from gpumemprof.recorder import automatic, registry

    os.read(waits, 1)
    automatic.begin(registry.make())
    kept = torch.empty(1000 + number, dtype=torch.uint8)
    del kept
    os._exit(0)


def run(processes: int) -> None:
    waits, barrier = os.pipe()
    children = []
    for number in range(processes):
        pid = os.fork()
        if pid == 0:
            os.close(barrier)
            record(number, waits)
        children.append(pid)
    os.close(barrier)
    for pid in children:
        if os.waitpid(pid, 0)[1] != 0:
            raise SystemExit("a process failed")
    os.close(waits)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--processes", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--keep", default="")
    arguments = parser.parse_args()
    wrong = 0
    quiet = os.open(os.devnull, os.O_WRONLY)
    for number in range(arguments.rounds):
        with tempfile.TemporaryDirectory() as folder:
            os.environ["GPUMEMPROF_OUTPUT"] = f"{folder}/run.gmp"
            keep = f" --keep {arguments.keep}" if arguments.keep else ""
            os.environ["GPUMEMPROF_OPTIONS"] = "--cpu" + keep  # also where there is a GPU
            words = os.dup(2)
            os.dup2(quiet, 2)  # Each process says where its recording is.
            run(arguments.processes)
            os.dup2(words, 2)
            os.close(words)
            found = peaks(Path(folder))
        if found != list(range(1000, 1000 + arguments.processes)):
            wrong += 1
            print(f"round {number}: {len(set(found))} recordings", file=sys.stderr)
    print(f"{arguments.rounds} rounds of {arguments.processes} processes: {wrong} wrong")
    sys.exit(1 if wrong else 0)


def peaks(folder: Path) -> list[int]:
    """In a process of its own, since this one is forked: it must have no threads."""
    waits, tells = os.pipe()
    pid = os.fork()
    if pid == 0:
        import gpumemprof

        found = [gpumemprof.load(path).devices[0].peak.allocated_bytes for path in folder.iterdir()]
        with os.fdopen(tells, "w") as told:
            told.write(" ".join(map(str, sorted(found))))
        os._exit(0)
    os.close(tells)
    with os.fdopen(waits) as told:
        numbers = told.read().split()
    os.waitpid(pid, 0)
    return [int(each) for each in numbers]


if __name__ == "__main__":
    main()
