"""Runs out of memory for each possible reason and checks the report's conclusion. Prints JSON.

Usage: python tests/device/oom_cases.py [--out FOLDER]

--out keeps the recordings, which are small, as fixtures for the tests.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import gpumemprof

OPENING = """
import ctypes, sys, time, torch, gpumemprof
GIB = 1 << 30
def block(size): return torch.empty(size, dtype=torch.uint8, device="cuda")
torch.zeros(1, device="cuda")
total = torch.cuda.get_device_properties(0).total_memory
recording = gpumemprof.start(sys.argv[1], overwrite=True)
keep = [block(GIB) for _ in range(3)]
def settle(): time.sleep(1.5)  # so that the card is sampled
def run_out(size):
    settle()
    try: block(size)
    except torch.OutOfMemoryError: pass
    else: raise SystemExit("did not run out of memory")
    settle()
    recording.stop()
"""
# Holds memory in another process until its input is closed.
HOLDER = """
import sys, torch
free, _ = torch.cuda.mem_get_info()
held = torch.empty(free - (6 << 30), dtype=torch.uint8, device="cuda")
print("held", flush=True)
sys.stdin.read()
"""
OUTSIDE = """
free, _ = torch.cuda.mem_get_info()
maps = open("/proc/self/maps").read().splitlines()
runtime = ctypes.CDLL(next(line.split()[-1] for line in maps if "libcudart" in line))
held = ctypes.c_void_p()
size = ctypes.c_size_t(free - (2 << 30))
assert runtime.cudaMalloc(ctypes.byref(held), size) == 0
run_out(4 * GIB)
"""
PROGRAMS = {
    "larger_than_card": "run_out(2 * total)",
    "other_processes": "run_out(6 * GIB)",
    "outside_pool": OUTSIDE,
    "limit": ("torch.cuda.set_per_process_memory_fraction(5 * GIB / total)\nrun_out(4 * GIB)"),
    "fragmentation": (
        "del keep\n"
        "torch.cuda.empty_cache()\n"
        "torch.cuda.set_per_process_memory_fraction(4.25 * GIB / total)\n"
        "bits = []\n"
        "for _ in range(200):\n"
        "    hole = block(30 << 20)\n"
        "    bits.append(block(6 << 20))\n"
        "    del hole\n"
        "run_out(3 * GIB)"
    ),
    "shortage": (
        "free, _ = torch.cuda.mem_get_info()\nkeep.append(block(free - 2 * GIB))\nrun_out(3 * GIB)"
    ),
}


def record(cause: str, path: Path) -> str:
    """What went wrong with the program; empty if it did what it should."""
    holder = None
    if cause == "other_processes":
        holder = subprocess.Popen(
            [sys.executable, "-c", HOLDER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert holder.stdout is not None
        holder.stdout.readline()
    try:
        done = subprocess.run(
            [sys.executable, "-c", OPENING + PROGRAMS[cause], str(path)],
            capture_output=True,
            text=True,
            timeout=120,
        )
    finally:
        if holder is not None:
            holder.communicate("")
    return "" if done.returncode == 0 else done.stderr[-500:]


def check(cause: str, folder: Path) -> dict[str, object]:
    path = folder / f"oom_{cause}.gmp"
    wrong = record(cause, path)
    if wrong:
        return {"wrong": [wrong], "told": ""}
    (device,) = gpumemprof.load(path).report()["devices"]
    verdicts = device["oom_reports"]
    if len(verdicts) != 1:
        return {"wrong": [f"{len(verdicts)} reports"], "told": ""}
    (verdict,) = verdicts
    told = f"{verdict['cause']}, doubts {verdict['doubts']}, short {verdict['short_bytes']}"
    is_right = verdict["cause"] == cause and verdict["is_proven"]
    return {"wrong": [] if is_right else [told], "told": told}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        results = {cause: check(cause, folder) for cause in PROGRAMS}
        if options.out is not None:
            options.out.mkdir(parents=True, exist_ok=True)
            for path in folder.glob("*.gmp"):
                shutil.copy(path, options.out)
    print(json.dumps(results))


if __name__ == "__main__":
    main()
