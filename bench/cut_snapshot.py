"""Cuts a PyTorch memory snapshot where a smaller memory would have ended the run.

The copy ends with an out-of-memory event in place of one of the recorded requests, and lists the
segments and blocks that existed then. Snapshots are unpickled: use only your own.
"""

from __future__ import annotations

import gzip
import pickle
from pathlib import Path
from typing import Any

import gpumemprof
import pyarrow


class Snapshot:
    """One device's history, which can be cut at any of its requests."""

    def __init__(self, path: Path) -> None:
        with gzip.open(path) as file:
            self._content: dict[str, Any] = pickle.load(file)
        traces = self._content["device_traces"]
        self._device = next(index for index, trace in enumerate(traces) if trace)
        self.trace: list[dict[str, Any]] = traces[self._device]
        recording = gpumemprof.load(path)
        self._allocations = pyarrow.table(recording.allocations).to_pylist()
        self._segments = pyarrow.table(recording.segments).to_pylist()

    def request_from(self, event: int) -> int:
        """The first request at or after an event; the segment allocated for it is part of it."""
        while self.trace[event]["action"] != "alloc":
            event += 1
        while event > 0 and self.trace[event - 1]["action"] in ("segment_alloc", "segment_map"):
            event -= 1
        return event

    def cut(self, event: int, path: Path) -> None:
        """Write the run as if the first request from this event on had failed."""
        first = self.request_from(event)
        failed = next(entry for entry in self.trace[first:] if entry["action"] == "alloc")
        oom = {key: value for key, value in failed.items() if key not in ("action", "addr")}
        oom |= {"action": "oom", "device_free": 1 << 20}
        content = dict(self._content)
        content["device_traces"] = [
            [*trace[:first], oom] if index == self._device else []
            for index, trace in enumerate(self._content["device_traces"])
        ]
        content["segments"] = self._segments_before(first)
        with gzip.open(path, "wb", compresslevel=1) as file:
            pickle.dump(content, file)

    def _segments_before(self, event: int) -> list[dict[str, Any]]:
        def is_there(row: dict[str, Any], birth: str, death: str) -> bool:
            began = row[birth] is None or row[birth] < event
            return began and (row[death] is None or row[death] >= event)

        live = [
            row for row in self._allocations if is_there(row, "alloc_event", "free_completed_event")
        ]
        live.sort(key=lambda row: row["address"])
        return [
            _segment(row, live, self._device)
            for row in self._segments
            if is_there(row, "birth_event", "death_event")
        ]


def _segment(row: dict[str, Any], live: list[dict[str, Any]], device: int) -> dict[str, Any]:
    start, end = row["address"], row["address"] + row["size_bytes"]
    blocks: list[dict[str, Any]] = []

    def add(address: int, size: int, requested: int, state: str) -> None:
        block = {"address": address, "size": size, "requested_size": requested}
        blocks.append({**block, "state": state, "frames": []})

    at = start
    inside = [entry for entry in live if start <= entry["address"] < end]
    for entry in inside:
        if entry["address"] > at:
            add(at, entry["address"] - at, 0, "inactive")
        size, requested = entry["size_bytes"], entry["requested_bytes"]
        add(entry["address"], size, requested, "active_allocated")
        at = entry["address"] + size
    if at < end:
        add(at, end - at, 0, "inactive")
    allocated = sum(entry["size_bytes"] for entry in inside)
    return {
        "device": device,
        "address": start,
        "total_size": row["size_bytes"],
        "allocated_size": allocated,
        "active_size": allocated,
        "requested_size": sum(entry["requested_bytes"] for entry in inside),
        "stream": 0,
        "segment_type": "small" if row["is_small"] else "large",
        "segment_pool_id": (0, 0),
        "is_expandable": bool(row["is_expandable"]),
        "frames": [],
        "blocks": blocks,
    }
