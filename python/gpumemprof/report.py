"""The report of a recording as typed objects; the words are those of the JSON report."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

__all__ = ["Counters", "DeviceReport", "End", "Frame", "LiveGroup", "Peak"]


@dataclass(frozen=True)
class Frame:
    """One frame of a call stack."""

    name: str
    file: str
    line: int

    def __str__(self) -> str:
        """``file:line name``."""
        return f"{self.file}:{self.line} {self.name}"


@dataclass(frozen=True)
class LiveGroup:
    """Blocks that were live at the same moment and allocated by the same stack."""

    stack: list[Frame]
    """Innermost first; empty where no stack was recorded."""
    bytes: int
    blocks: int
    is_backward: bool = False
    """Allocated in backward: the stack is that of the forward op whose gradient was computed."""


@dataclass(frozen=True)
class Peak:
    """The moment of most allocated bytes; ``None`` for what the recording does not tell."""

    allocated_bytes: int | None
    reserved_bytes: int | None
    requested_bytes: int | None
    event_index: int | None
    """``None``: it was already so when the history began."""
    time_us: int | None


@dataclass(frozen=True)
class End:
    """The state at the end of the recording, as PyTorch's own counters have it."""

    allocated_bytes: int
    active_bytes: int
    reserved_bytes: int
    requested_bytes: int
    inactive_split_bytes: int
    segments: int


@dataclass(frozen=True)
class Counters:
    """How often what happened; ``None`` where no history was recorded."""

    allocations: int | None
    frees: int | None
    segment_allocs: int | None
    segment_frees: int | None
    alloc_retries: int | None
    ooms: int | None


@dataclass(frozen=True)
class DeviceReport:
    """What happened on one device."""

    device: str
    """For example ``cuda:0``; ``host`` for pinned host memory."""
    peak: Peak
    peak_reserved_bytes: int | None
    peak_active_bytes: int | None
    peak_requested_bytes: int | None
    """These three each at their own moment, as PyTorch counts them."""
    end: End
    counters: Counters
    live_at_peak: list[LiveGroup]
    """Most bytes first; they sum to ``peak.allocated_bytes``. Empty without a history."""
    exact_from_event: int | None
    """From this event on every figure is exact; ``None``: from no event on."""

    @classmethod
    def from_json(cls, device: dict[str, Any]) -> DeviceReport:
        """From one of the ``devices`` of the JSON report."""
        return cls(
            device=device["device"],
            peak=Peak(**_only(device["peak"], Peak)),
            peak_reserved_bytes=device["peak_reserved_bytes"],
            peak_active_bytes=device["peak_active_bytes"],
            peak_requested_bytes=device["peak_requested_bytes"],
            end=End(**_only(device["end"], End)),
            counters=Counters(**_only(device["counters"], Counters)),
            live_at_peak=[_live_group(group) for group in device["live_at_peak"] or []],
            exact_from_event=device["exact_from_event"],
        )


def _only(values: dict[str, Any], kind: Any) -> dict[str, Any]:
    # The JSON report may say more than the class does.
    return {field.name: values[field.name] for field in fields(kind)}


def _live_group(group: dict[str, Any]) -> LiveGroup:
    stack = [Frame(**frame) for frame in group["stack"]]
    return LiveGroup(stack, group["bytes"], group["blocks"], group["is_backward"])
