"""Random new workloads, recorded by torch near a memory limit, and simulated.

Prints one JSON line: what was compared for each setting, and every mismatch.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import gpumemprof

RECORD = Path(__file__).resolve().parents[1] / "data/sim/record.py"
FRACTION = "0.03"
SETTINGS = {
    "defaults": "-",
    "expandable": "expandable_segments:True",
    "split64_round8": "max_split_size_mb:64,roundup_power2_divisions:8",
}


def truth_of(path: Path) -> dict[str, str]:
    rows = [line.split() for line in path.read_text().splitlines()]
    return {row[-2]: row[-1] for row in rows}


def compare(name: str, conf: str, seed: int, folder: Path) -> dict[str, object]:
    command = [sys.executable, str(RECORD), name, str(seed), conf, FRACTION, "mixed-streams"]
    subprocess.run([*command, str(folder)], check=True, capture_output=True)
    truth = truth_of(folder / f"{name}.truth")
    limit = int(float(FRACTION) * int(truth["device_total_bytes"]))
    recording = gpumemprof.load(folder / f"{name}.pickle.gz")
    device = recording.replay(recorded_limit=limit)["devices"][0]
    verified, run = device["verified"], device["runs"][0]
    wrong = [
        f"{key} {verified[key]}"
        for key in ("address_mismatches", "segment_mismatches", "counter_mismatches")
        if verified[key]
    ]
    for ours, theirs in (
        ("peak_allocated_bytes", "allocated_bytes.all.peak"),
        ("peak_reserved_bytes", "reserved_bytes.all.peak"),
        ("num_ooms", "num_ooms"),
        ("num_device_alloc", "num_device_alloc"),
        ("num_device_free", "num_device_free"),
    ):
        if run[ours] != int(truth[theirs]):
            wrong.append(f"{ours} {run[ours]}, torch says {truth[theirs]}")
    return {
        "seed": seed,
        "allocations": verified["allocations"],
        "segment_calls": verified["segment_calls"],
        "ooms": run["num_ooms"],
        "retries": run["num_alloc_retries"],
        "torch_retries": int(truth["num_alloc_retries"]),
        "wrong": wrong,
    }


def main() -> None:
    seed = random.SystemRandom().randrange(1 << 30)
    with tempfile.TemporaryDirectory() as folder:
        result = {name: compare(name, conf, seed, Path(folder)) for name, conf in SETTINGS.items()}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
