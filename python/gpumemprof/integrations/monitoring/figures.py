"""Which figures are published, by name; what is unknown has no sample, never 0.

Names of the whole card follow OpenTelemetry's ``hw.gpu.memory.*``; the others begin with
``gpumemprof``. Bytes everywhere.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from gpumemprof.live.figures import Row, rows
from gpumemprof.live.targets import ProcessTarget
from gpumemprof.live.watched import WatchedRecording
from gpumemprof.live.watcher import Watcher

__all__ = ["FIGURES", "INFO", "Figure", "RecentPeaks", "Sample", "samples", "watcher_of"]

# To look for recordings of new child processes takes longer than to look into known ones.
_SEARCH_SECONDS = 5.0


def watcher_of(process: int) -> Watcher:
    """Follows what a process and its children record, without the lines and steps."""
    return Watcher([ProcessTarget(process)], _SEARCH_SECONDS, most_sites=0, most_steps=0)


@dataclass(frozen=True)
class Figure:
    """One metric; `name` as OpenTelemetry writes it."""

    name: str
    is_counter: bool
    unit: str
    text: str


_GAUGES = {
    "gpumemprof.memory.allocated": ("allocated_bytes", "Bytes that tensors hold."),
    "gpumemprof.memory.reserved": ("reserved_bytes", "Bytes that torch's pool holds."),
    "gpumemprof.memory.peak_allocated": (
        "peak_allocated_bytes",
        "The most bytes that tensors held at one moment of the run.",
    ),
    "gpumemprof.memory.peak_reserved": (
        "peak_reserved_bytes",
        "The most bytes that torch's pool held at one moment of the run.",
    ),
    "hw.gpu.memory.usage": ("used_now_bytes", "Bytes of the card in use by all processes."),
    "hw.gpu.memory.limit": ("total_bytes", "Bytes of the card."),
}
_COUNTERS = {
    "gpumemprof.alloc_retries": ("retries", "How often torch emptied its cache to find room."),
    "gpumemprof.out_of_memory": ("out_of_memory", "Allocations that failed."),
    "gpumemprof.events": ("events", "Events of the allocator that were recorded."),
    "gpumemprof.lost_events": ("lost_events", "Events that the recorder could not keep."),
}
_RECENT_PEAKS = {
    "gpumemprof.memory.recent_peak_allocated": (
        "recent_peak_allocated_bytes",
        "The most bytes that tensors held at one moment of the last minute.",
    ),
    "gpumemprof.memory.recent_peak_reserved": (
        "recent_peak_reserved_bytes",
        "The most bytes that torch's pool held at one moment of the last minute.",
    ),
}
_RECENT_SECONDS = 60.0
_LAST_EVENT = "gpumemprof.last_event.timestamp"
_HEADROOM = "gpumemprof.memory.headroom"
_UTILIZATION = "hw.gpu.memory.utilization"
_SOURCE = "gpumemprof.memory.source"
INFO = "gpumemprof.info"
"""Has no value: its labels say what a process is."""

FIGURES: dict[str, Figure] = {
    **{
        name: Figure(name, False, "By", text)
        for name, (_, text) in (_GAUGES | _RECENT_PEAKS).items()
    },
    _LAST_EVENT: Figure(
        _LAST_EVENT, False, "s", "When the newest event was that these figures include, Unix time."
    ),
    _HEADROOM: Figure(
        _HEADROOM, False, "By", "Bytes that torch's pool can still take from the card."
    ),
    _UTILIZATION: Figure(_UTILIZATION, False, "1", "The share of the card that is in use."),
    _SOURCE: Figure(_SOURCE, False, "By", "Bytes that tensors hold, by what they are for."),
    **{name: Figure(name, True, "{event}", text) for name, (_, text) in _COUNTERS.items()},
    INFO: Figure(INFO, False, "", "What is recorded: always 1, and the labels say the rest."),
}


@dataclass(frozen=True)
class Sample:
    """One value of a figure."""

    figure: Figure
    value: float
    labels: dict[str, str]


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def _labels(row: Row) -> dict[str, str]:
    device = str(row.device["device"])
    return {
        "device": device,
        "hw_id": str(row.device.get("card") or device),
        "pid": _text(row.pid),
        "rank": _text(row.rank),
    }


def _info(row: Row) -> Sample:
    """What the process is; empty labels where that is unknown."""
    report = row.recording.report
    labels = {
        "version": _text(report.get("gpumemprof")),
        "torch": _text(report.get("torch")),
        "command": row.program,
        "host": _text(report.get("host")),
        "job_id": _text(report.get("job")),
        "pid": _text(row.pid),
        "rank": _text(row.rank),
    }
    return Sample(FIGURES[INFO], 1.0, labels)


class RecentPeaks:
    """The peaks of the last minute, exact, however many ask for them: no peak is lost between two.

    What a look finds counts for a minute after it, so what happened since the look before does too.
    """

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], deque[tuple[float, dict[str, int | None]]]] = {}
        self._seen: dict[str, dict[str, Any]] = {}

    def note(self, recordings: list[WatchedRecording], now: float | None = None) -> None:
        """Take what the last look has found; call after each."""
        now = time.monotonic() if now is None else now
        for row in rows(recordings):
            found = self._found.setdefault(row.key, deque())
            if self._seen.get(row.key[0]) is not row.recording.report:
                found.append((now, {key: row.device.get(key) for key, _ in _RECENT_PEAKS.values()}))
            while found and found[0][0] < now - _RECENT_SECONDS:
                found.popleft()
        for recording in recordings:
            self._seen[str(recording.path)] = recording.report

    def of(self, row: Row, key: str) -> int | None:
        """One of the figures; None if unknown.

        Nothing is allocated or freed without an event, so a program that rests holds its figure.
        """
        peaks = [peaks.get(key) for _, peaks in self._found.get(row.key, ())]
        peaks.append(row.device.get(key.removeprefix("recent_peak_")))
        return max((peak for peak in peaks if peak is not None), default=None)


def _of_row(row: Row, recent: RecentPeaks) -> Iterator[Sample]:
    labels = _labels(row)

    def known(name: str, value: Any, **more: str) -> Iterator[Sample]:
        if value is not None:
            yield Sample(FIGURES[name], float(value), {**labels, **more})

    # Without a pool, as for CPU tensors, nothing is reserved.
    has_pool = row.device.get("has_pool", True)
    for name, (key, _) in _GAUGES.items():
        if has_pool or "reserved" not in key:
            yield from known(name, row.device.get(key))
    for name, (key, _) in _RECENT_PEAKS.items():
        if has_pool or "reserved" not in key:
            yield from known(name, recent.of(row, key))
    if row.device["last_time_ns"] is not None:
        yield from known(_LAST_EVENT, row.device["last_time_ns"] / 1e9)
    yield from known(_HEADROOM, row.headroom_bytes)
    yield from known(_UTILIZATION, row.filled)
    for source, count in (row.device.get("sources") or {}).items():
        yield from known(_SOURCE, count, source=source)
    for name, (key, _) in _COUNTERS.items():
        yield from known(name, row.device.get(key))


def samples(recordings: list[WatchedRecording], recent: RecentPeaks) -> Iterator[Sample]:
    """The figures of all devices of these recordings, and what each process is."""
    told = set()
    for row in rows(recordings):
        if not row.device:
            continue
        if row.key[0] not in told:
            told.add(row.key[0])
            yield _info(row)
        yield from _of_row(row, recent)
