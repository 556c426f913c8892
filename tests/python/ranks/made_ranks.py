"""Made-up summaries of ranks, for jobs of any shape."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

MIB = 1 << 20
GIB = 1 << 30
START_NS = 1_790_000_000_000_000_000


def _device(peaks: list[int]) -> dict[str, Any]:
    return {
        "device": "cuda:0",
        "card": "NVIDIA H200",
        "total_bytes": 8 * GIB,
        "memory_fraction": 1.0,
        "firmware_bytes": 0,
        "other_processes_bytes": 0,
        "outside_bytes": 500 * MIB,
        "outside_by_kind": None,
        "nccl": None,
        "least_free_bytes": GIB,
        "is_exact": True,
        "run_kind": "training",
        "events": 1000,
        "peak_bytes": max(peaks),
        "peak_step": peaks.index(max(peaks)) + 1,
        "peak_phase": "backward",
        "peak_unix_ns": START_NS,
        "reserved_bytes": max(peaks) + 20 * MIB,
        "retries": 0,
        "are_retries_counted": True,
        "ooms": 0,
        "sources": {
            "parameters": {"at_peak": 40 * MIB, "most": 40 * MIB, "provenance": "measured"},
            "activations": {
                "at_peak": max(peaks) - 40 * MIB,
                "most": max(peaks) - 40 * MIB,
                "provenance": "inferred",
            },
        },
        "rounding_bytes": 0,
        "leaks": {"verdict": "clean", "steps": len(peaks), "bytes_per_step": 0, "lines": []},
        "oom_reports": [],
        "steps": len(peaks),
    }


def _process(rank: int, world_size: int, mesh: dict[str, tuple[int, int]]) -> dict[str, Any]:
    return {
        "rank": rank,
        "local_rank": rank % 8,
        "world_size": world_size,
        "mesh": [
            {"dimension": name, "coordinate": place, "size": size}
            for name, (place, size) in mesh.items()
        ],
        "job": "a job",
        "restart_count": 0,
        "host": f"host{rank // 8}",
        "pid": 100 + rank,
        "command": "train.py",
        "torch": "2.13.0",
        "gpumemprof": "0.1.0",
    }


def made_rank(rank: int, world_size: int = 4, **changes: Any) -> dict[str, Any]:
    """A plain rank: 12 steps of 100 MiB.

    `changes` are fields of the head, of its process, of its ending or of its device; ``peaks`` are
    the peaks of the steps.
    """
    peaks = changes.pop("peaks", [100 * MIB] * 12)
    mesh = changes.pop("mesh", {})
    device = _device(peaks)
    process = _process(rank, world_size, mesh)
    ending = {
        "is_closed": True,
        "reason": "exit",
        "problem": None,
        "failure_type": None,
        "failure_place": None,
        "failure_unix_ns": None,
        "is_failure_of_peer": False,
    }
    head: dict[str, Any] = {
        "format": "gpumemprof rank summary",
        "version": 1,
        "recording_bytes": 0,
        "kind": "recording",
        "is_whole": True,
        "process": process,
        "ending": ending,
        "first_unix_ns": START_NS,
        "last_unix_ns": START_NS + 10**9,
        "devices": [device],
    }
    for name, value in changes.items():
        next(part for part in (head, process, ending, device) if name in part)[name] = value
    held = {
        "device": 0,
        "sites": [{"line": "train.py:7 step", "bytes": max(peaks) - 40 * MIB}],
        "sites_left_out": 0,
        "modules": [{"module": "layers.0", "bytes": max(peaks) - 40 * MIB}],
    }
    return {"head": head, "held": held, "peaks": peaks}


def summary_text(made: dict[str, Any]) -> str:
    peaks: list[int] = made["peaks"]
    columns = {"step": list(range(1, len(peaks) + 1)), "peak_bytes": peaks}
    columns.update(made.get("columns", {}))
    lines = [json.dumps(made[part], separators=(",", ":")) for part in ("head", "held")]
    for name, values in columns.items():
        differences = [value - before for value, before in zip(values, [0, *values])]
        row = {"device": 0, "column": name, "differences": differences}
        lines.append(json.dumps(row, separators=(",", ":")))
    return "\n".join(lines) + "\n"


def write_ranks(folder: Path, ranks: list[dict[str, Any]], name: str = "job") -> None:
    for made in ranks:
        rank = made["head"]["process"]["rank"]
        (folder / f"{name}.rank{rank}.gmp.summary.jsonl").write_text(summary_text(made))
