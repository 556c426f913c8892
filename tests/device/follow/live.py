"""A run on the GPU, watched while it runs. Prints one line of JSON.

Every program runs under ``gpumemprof run``, in turns watched (four looks a second) and not. What
the watcher saw last must equal torch's own counters, the peaks between its looks must include the
peak of the run, and the median step must not be slower.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from gpumemprof import _core

HERE = Path(__file__).resolve().parent.parent
ROUNDS = 4
LOOK_SECONDS = 0.25
PROGRAM = """
import json, sys, time
import torch
sys.path.insert(0, {here!r})
from workloads import small_training
step = small_training()
times = []
for _ in range(1500):
    begin = time.perf_counter()
    step()
    torch.cuda.synchronize()
    times.append(time.perf_counter() - begin)
print(json.dumps([times, torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()]))
"""


def watch(path: Path, process: subprocess.Popen[str]) -> dict[str, Any]:
    """The last look, the most of all recent peaks, and the watcher's share of a core."""
    while not path.exists() or path.stat().st_size < 16:
        time.sleep(0.02)
    run = _core.FollowedRun(str(path))
    most, looks, seen = 0, 0, {}
    begin, used = time.perf_counter(), time.process_time()
    while True:
        seen = json.loads(run.read(1 << 30, 20, 120))
        looks += 1
        for device in seen["devices"]:
            most = max(most, device["recent_peak_allocated_bytes"])
        if seen["ended"] is not None or process.poll() not in (None, 0):
            break
        time.sleep(LOOK_SECONDS)
    share = (time.process_time() - used) / (time.perf_counter() - begin)
    return {"last": seen, "most": most, "looks": looks, "share": share}


def run(folder: Path, is_watched: bool) -> dict[str, Any]:
    folder.mkdir()
    (folder / "train.py").write_text(PROGRAM.format(here=str(HERE)))
    path = folder / "run.gmp"
    process = subprocess.Popen(
        [sys.executable, "-m", "gpumemprof", "run", "-o", str(path), "train.py"],
        cwd=folder,
        env=dict(os.environ),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    found = watch(path, process) if is_watched else {}
    output, _ = process.communicate(timeout=200)
    times, allocated, reserved = json.loads(output.splitlines()[0])
    return {**found, "times": times[100:], "allocated": allocated, "reserved": reserved}


def compare(watched: dict[str, Any]) -> list[str]:
    device = watched["last"]["devices"][0]
    pairs = [
        ("peak allocated", device["peak_allocated_bytes"], watched["allocated"]),
        ("peak reserved", device["peak_reserved_bytes"], watched["reserved"]),
        ("most of the recent peaks", watched["most"], watched["allocated"]),
    ]
    return [f"{what}: {seen}, torch {truth}" for what, seen, truth in pairs if seen != truth]


def main() -> None:
    medians: dict[bool, list[float]] = {False: [], True: []}
    wrong: list[str] = []
    shares: list[float] = []
    facts: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(ROUNDS):
            for is_watched in (False, True):
                done = run(Path(folder) / f"{turn}_{is_watched}", is_watched)
                medians[is_watched].append(statistics.median(done["times"]))
                if is_watched:
                    wrong += compare(done)
                    shares.append(done["share"])
                    device = done["last"]["devices"][0]
                    facts = {
                        "events": device["events"],
                        "looks": done["looks"],
                        "is_exact": device["is_exact"],
                        "lost": device["lost_events"],
                        "steps": device["steps"][-1]["step"] if device["steps"] else 0,
                        "sources": device["sources"],
                        "total": device["total_bytes"],
                        "used": device["used_bytes"],
                        "used_now": device["used_now_bytes"],
                        "outside_pool": device["outside_pool_bytes"],
                        "retries": device["retries"],
                    }
    ratio = statistics.median(medians[True]) / statistics.median(medians[False])
    print(
        json.dumps(
            {
                "wrong": wrong,
                "ratio": ratio,
                "unwatched": medians[False],
                "watched": medians[True],
                "watcher_share": max(shares),
                **facts,
            }
        )
    )


if __name__ == "__main__":
    main()
