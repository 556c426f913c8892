"""The summary of a recording that has ended, and the reports of child processes."""

from __future__ import annotations

from typing import TypedDict

from gpumemprof.read.completeness import EventCounts

__all__ = ["ChildReport", "DeviceSummary", "RecordingSummary"]


class DeviceSummary(TypedDict):
    """What was recorded of one device, by its number."""

    device: int
    events: int
    requested_bytes: int
    peak_requested_bytes: int


class RecordingSummary(TypedDict, total=False):
    """Empty until the recording ends."""

    path: str
    events: int
    lost_events: int
    made: EventCounts | None
    """What the program did; ``None`` if this is not known."""
    lost: EventCounts | None
    size_bytes: int
    problem: str
    """Why the file could not be written; empty if it could."""
    devices: list[DeviceSummary]


class _StartedChild(TypedDict):
    pid: int
    path: str | None
    """Its file; ``None`` if it is not recorded: because of a problem, or there are too many."""


class ChildReport(_StartedChild, total=False):
    """What a child process reports to the first process; complete once the child has ended."""

    events: int
    recorded: str
    """The sentence of `what_is_recorded`."""
    size_bytes: int
    peaks: str
    notes: list[str]
    is_rank: bool
    """Whether it is one of several ranks of a job."""
    problem: str
    """Why nothing, or not everything, could be recorded; empty if it could."""
