"""The types of what ``gpumemprof leaks --json`` prints; docs/cli/leaks.md explains the keys."""

from __future__ import annotations

from typing import TypedDict

from gpumemprof.read.completeness import Completeness

__all__ = ["DeviceLeaksJson", "LeakJson", "LeakSiteJson", "LeaksJson", "StepsToOomJson"]


class LeakFrameJson(TypedDict):
    """A line of code."""

    file: str
    line: int
    name: str


class StepsToOomJson(TypedDict):
    """How many more steps there is memory for: a prediction with its band."""

    steps: int
    low: int
    high: int
    limit_bytes: int
    provenance: str


class LeakSiteJson(TypedDict):
    """A line whose memory grows without end."""

    file: str | None
    line: int | None
    function: str | None
    is_backward: bool
    device: str
    bytes_per_step: int
    blocks_per_step: float
    bytes: int
    blocks: int
    first_step: int
    oldest_age_steps: int
    source: str
    source_provenance: str
    module: str | None
    tag: str | None
    holder: list[str] | None
    held_by: str | None
    advice: str
    doubt: str | None
    steps_to_oom: int | None


class LeakJson(LeakSiteJson):
    """Such a line with its callers."""

    stack: list[LeakFrameJson]


class DeviceLeaksJson(TypedDict):
    """The verdict about one device."""

    verdict: str
    steps: int
    growth_bytes_per_step: int | None
    frame: LeakFrameJson | None
    lines: int
    device: str
    repetition: str
    repeated_line: LeakFrameJson | None
    last_step: int
    reserved_bytes_per_step: int
    outside_bytes_per_step: int
    stopped_bytes: int
    suppressed: int
    steps_to_oom: StepsToOomJson | None
    notes: list[str]


class LeaksJson(TypedDict):
    """What leaks in a recording."""

    schema_version: int
    path: str
    completeness: Completeness
    verdict: str
    growth_bytes_per_step: int | None
    steps_to_oom: StepsToOomJson | None
    leaks: list[LeakJson]
    devices: list[DeviceLeaksJson]
