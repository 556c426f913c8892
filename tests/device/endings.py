"""However a process ends, its file opens to within a second of the end. Prints one line of JSON."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import gpumemprof

PROGRAM = """
import ctypes, os, signal, sys, threading, time, torch
import gpumemprof
gpumemprof.start(sys.argv[1])
device = sys.argv[3]
end = time.time() + 2.5
while time.time() < end:
    x = torch.empty(10_000, device=device)
    time.sleep(0.0005)
way = sys.argv[2]
print(time.time(), flush=True)
if way == "kill": os.kill(os.getpid(), signal.SIGKILL)
if way == "term": os.kill(os.getpid(), signal.SIGTERM)
if way == "exit": sys.exit(3)
if way == "_exit": os._exit(3)
if way == "exception": raise ValueError("on purpose")
if way == "crash": ctypes.string_at(0)
"""
CODES = {"kill": -9, "term": -15, "exit": 3, "_exit": 3, "exception": 1, "crash": -11}


def check(way: str, device: str, folder: Path) -> tuple[float, int]:
    """Seconds between the end and the last event in the file, and the exit code."""
    path = folder / f"{way}.gmp"
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(path), way, device],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        recording = gpumemprof.load(path)
    count = sum(device["events"] for device in recording.report()["devices"])
    last = recording.report(at=count - 1)["devices"][0]["at"]["time_us"]
    return float(done.stdout) - last / 1e6, done.returncode


def main(device: str) -> None:
    folder = Path(tempfile.mkdtemp())
    late = {}
    wrong = []
    for way, code in CODES.items():
        begun = time.time()
        seconds, returned = check(way, device, folder)
        late[way] = round(seconds, 3)
        if not -0.1 < seconds < 1 or returned != code:
            wrong.append(
                f"{way}: {seconds:.2f} s, exit code {returned}, {time.time() - begun:.1f} s"
            )
    print(json.dumps({"seconds_lost": late, "wrong": wrong}))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "cuda")
