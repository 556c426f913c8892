"""How long a report on many ranks takes, and how much memory: generated summaries of a large job.

    python bench/ranks/scale.py [--ranks 16384] [--steps 1000] [--folder FOLDER]

Writes a summary for each rank of a mesh of pipeline, tensor and data parallel places (8 by 8 by
256 for 16,384 ranks). One rank holds more than its group, another fails and all others follow. Then
``gpumemprof ranks --json`` reports them in a process of its own. Prints one line of JSON: CPU and
wall seconds, the most memory, and whether the report names the right ranks. Exits with 1 if it does
not. Files are written once if --folder is given, and used again.
"""

from __future__ import annotations

import argparse
import functools
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

GIB = 1 << 30
MIB = 1 << 20
PIPELINE, TENSOR = 8, 8
OUTLIER_STEP = 640
START_NS = 1_790_000_000_000_000_000
SOURCES = ("parameters", "gradients", "optimizer_state", "activations", "inputs", "temporaries")


def column(name: str, values: list[int]) -> str:
    differences = [value - before for value, before in zip(values, [0, *values])]
    row = {"device": 0, "column": name, "differences": differences}
    return json.dumps(row, separators=(",", ":")) + "\n"


def device_of(
    rank: int, peaks: list[int], by_source: dict[str, object], last_ns: int
) -> dict[str, object]:
    peak = max(peaks)
    return {
        "device": f"cuda:{rank % 8}",
        "card": "NVIDIA H200",
        "total_bytes": 140 * GIB,
        "memory_fraction": 1.0,
        "firmware_bytes": 600 * MIB,
        "other_processes_bytes": 0,
        "outside_bytes": 3 * GIB,
        "outside_by_kind": None,
        "nccl": None,
        "least_free_bytes": 140 * GIB - peak - 8 * GIB,
        "is_exact": True,
        "run_kind": "training",
        "events": 10_000_000,
        "peak_bytes": peak,
        "peak_step": peaks.index(peak) + 1,
        "peak_phase": "backward",
        "peak_unix_ns": last_ns,
        "reserved_bytes": peak + 4 * GIB,
        "retries": 0,
        "are_retries_counted": True,
        "ooms": 0,
        "sources": by_source,
        "rounding_bytes": MIB,
        "leaks": {"verdict": "clean", "steps": len(peaks), "bytes_per_step": 0, "lines": []},
        "oom_reports": [],
        "steps": len(peaks),
    }


def head_of(
    rank: int, ranks: int, place: dict[str, int], is_first: bool, last_ns: int
) -> dict[str, object]:
    sizes = {"pp": PIPELINE, "tp": TENSOR, "dp": ranks // (PIPELINE * TENSOR)}
    return {
        "format": "gpumemprof rank summary",
        "version": 1,
        "recording_bytes": 0,
        "kind": "recording",
        "is_whole": True,
        "process": {
            "rank": rank,
            "local_rank": rank % 8,
            "world_size": ranks,
            "mesh": [
                {"dimension": name, "coordinate": place[name], "size": sizes[name]}
                for name in ("pp", "tp", "dp")
            ],
            "job": "bench",
            "restart_count": 0,
            "host": f"host{rank // 8:04}",
            "pid": 1000 + rank,
            "command": "pretrain.py",
            "torch": "2.13.0",
            "gpumemprof": "0.1.0",
        },
        "ending": {
            "is_closed": True,
            "reason": "exception: RuntimeError",
            "problem": None,
            "failure_type": "ValueError" if is_first else "DistBackendError",
            "failure_place": "pretrain.py:88 load" if is_first else "pretrain.py:70 train",
            "failure_unix_ns": last_ns + (0 if is_first else 5_000_000_000 + rank),
            "is_failure_of_peer": not is_first,
        },
        "first_unix_ns": START_NS,
        "last_unix_ns": last_ns,
    }


# So many different columns of noise for each stage: making them takes most of the time.
NOISES = 61


@functools.cache
def body(stage: int, noise: int, steps: int, is_outlier: bool) -> tuple[list[int], str]:
    """The peaks of all steps, and what follows the first line."""
    chance = random.Random(noise)
    base = (40 + 3 * stage) * GIB
    peaks = [base + chance.randrange(64) * MIB for _ in range(steps)]
    if is_outlier:
        peaks[min(OUTLIER_STEP, steps - 1)] += 12 * GIB
    peak = max(peaks)
    sites = [
        {"line": f"model/layers/block.py:{100 + row} forward", "bytes": peak // (row + 20)}
        for row in range(24)
    ]
    modules = [
        {"module": f"model.layers.{row}.self_attention", "bytes": peak // (row + 20)}
        for row in range(24)
    ]
    noisy = ("peak_bytes", peaks)
    quiet = [(name, [base // 9] * steps) for name in ("floor_bytes", "outside_bytes")]
    reserved = ("reserved_bytes", [value + 4 * GIB for value in peaks])
    most = [(f"most {name}", [value // 7 for value in peaks]) for name in SOURCES]
    columns = [("step", list(range(1, steps + 1))), noisy, *quiet, reserved, *most]
    held = {"device": 0, "sites": sites, "sites_left_out": 40, "modules": modules}
    text = json.dumps(held, separators=(",", ":")) + "\n"
    return peaks, text + "".join(column(name, values) for name, values in columns)


def summary(rank: int, ranks: int, steps: int, outlier: int, failed: int) -> str:
    """One rank: stages differ by design, and every step of every rank by some noise."""
    data = ranks // (PIPELINE * TENSOR)
    place = {"pp": rank // (TENSOR * data), "tp": rank // data % TENSOR, "dp": rank % data}
    peaks, rest = body(place["pp"], rank % NOISES, steps, rank == outlier)
    peak = max(peaks)
    by_source = {
        name: {"at_peak": peak // len(SOURCES), "most": peak // 5, "provenance": "measured"}
        for name in SOURCES
    }
    if rank == outlier:
        by_source["activations"]["at_peak"] += 10 * GIB
    last_ns = START_NS + steps * 1_000_000_000
    head = head_of(rank, ranks, place, rank == failed, last_ns)
    head["devices"] = [device_of(rank, peaks, by_source, last_ns)]
    return json.dumps(head, separators=(",", ":")) + "\n" + rest


def write(folder: Path, ranks: int, steps: int, outlier: int, failed: int) -> None:
    for rank in range(ranks):
        path = folder / f"host{rank // 8:04}" / f"pretrain.rank{rank}.gmp.summary.jsonl"
        path.parent.mkdir(exist_ok=True)
        path.write_text(summary(rank, ranks, steps, outlier, failed))


def measure(folder: Path) -> tuple[dict[str, float], dict[str, object]]:
    command = [sys.executable, "-m", "gpumemprof", "ranks", "--json", str(folder)]
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(command, capture_output=True, check=True)
    wall = time.monotonic() - begin
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    figures = {"cpu_seconds": cpu, "wall_seconds": wall, "most_mib": after.ru_maxrss / 1024}
    return figures, json.loads(done.stdout)["jobs"][0]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=PIPELINE * TENSOR * 256)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    outlier, failed = options.ranks // 3, options.ranks // 2 + 5
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        if options.folder is None or not folder.is_dir():
            folder.mkdir(parents=True, exist_ok=True)
            write(folder, options.ranks, options.steps, outlier, failed)
        size = sum(path.stat().st_size for path in folder.rglob("*.jsonl"))
        figures, job = measure(folder)
    outliers = [one["rank"] for one in job["outliers"]]  # type: ignore[index,attr-defined]
    first = job["failures"]["first"]["rank"]  # type: ignore[index,call-overload]
    followed = len(job["failures"]["followed"])  # type: ignore[index,call-overload]
    is_right = outliers == [outlier] and first == failed and followed == options.ranks - 1
    result = {
        "ranks": options.ranks,
        "steps": options.steps,
        "bytes_per_step": size / options.ranks / options.steps,
        **figures,
        "is_right": is_right,
    }
    print(json.dumps(result))
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
