"""Record one workload, replay the file, and compare with torch's own counters, byte for byte.

Usage: exact.py WORKLOAD; prints one line of JSON.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import gpumemprof
import torch
from workloads import WORKLOADS, small_training


def compare(path: str, stats: dict[str, int], has_whole_history: bool) -> list[str]:
    (device,) = gpumemprof.load(path).devices
    pairs = {
        "allocated": (device.end.allocated_bytes, stats["allocated_bytes.all.current"]),
        "active": (device.end.active_bytes, stats["active_bytes.all.current"]),
        "reserved": (device.end.reserved_bytes, stats["reserved_bytes.all.current"]),
        "requested": (device.end.requested_bytes, stats["requested_bytes.all.current"]),
        "ooms": (device.counters.ooms, stats["num_ooms"]),
        "retries": (device.counters.alloc_retries, stats["num_alloc_retries"]),
    }
    if has_whole_history:
        pairs["peak allocated"] = (device.peak.allocated_bytes, stats["allocated_bytes.all.peak"])
        pairs["peak reserved"] = (device.peak_reserved_bytes, stats["reserved_bytes.all.peak"])
        pairs["peak active"] = (device.peak_active_bytes, stats["active_bytes.all.peak"])
        pairs["peak requested"] = (device.peak_requested_bytes, stats["requested_bytes.all.peak"])
        pairs["allocations"] = (device.counters.allocations, stats["allocation.all.allocated"])
    wrong = [
        f"{name}: {ours} not {theirs}" for name, (ours, theirs) in pairs.items() if ours != theirs
    ]
    if device.exact_from_event != 0:
        wrong.append(f"exact from event {device.exact_from_event}")
    return wrong


def main(name: str) -> None:
    path = str(Path(tempfile.mkdtemp()) / "run.gmp")
    kept = None
    if name == "joined_late":
        kept = small_training()
        for _ in range(3):
            kept()
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
    with gpumemprof.record(path) as recording:
        WORKLOADS[name]()
        torch.cuda.synchronize()
        stats = torch.cuda.memory_stats()
    wrong = compare(path, stats, has_whole_history=name != "joined_late")
    if recording.capture != "native":
        wrong.append(f"capture: {recording.capture}")
    result = {
        "workload": name,
        "events": recording.summary["events"],
        "lost": recording.summary["lost_events"],
        "bytes_per_event": recording.summary["size_bytes"] / max(1, recording.summary["events"]),
        "wrong": wrong,
        "notes": recording.notes,
    }
    del kept
    print(json.dumps(result))


if __name__ == "__main__":
    main(sys.argv[1])
