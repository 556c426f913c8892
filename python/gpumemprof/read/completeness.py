"""What a recording has of the program's run, and what it lost, as in the JSON report."""

from __future__ import annotations

from typing import TypedDict

__all__ = ["Completeness", "EventCounts", "ExcerptPart", "LostPeriod"]


class EventCounts(TypedDict):
    """How many events of each kind."""

    allocations: int
    frees: int
    others: int


class LostPeriod(TypedDict):
    """A part of the run in which events were lost."""

    device: str
    from_event: int
    to_event: int
    from_us: int | None
    to_us: int | None
    lost_events: int | None
    lost_allocations: int | None
    lost_frees: int | None
    is_summarised: bool
    """Chapters of a long recording were removed here: figures after it are exact."""


class ExcerptPart(TypedDict):
    """Which part of a device's run an excerpt holds: events ``from_event`` up to ``to_event``."""

    device: str
    from_event: int
    to_event: int
    first_step: int | None
    last_step: int | None
    events_of_run: int
    lead_in_events: int
    """Rows of its tables before the part: they allocate the memory that is older."""
    is_around_peak: bool


class Completeness(TypedDict):
    """How a recording ended, and what is missing; ``None`` for what is not known."""

    is_whole: bool | None
    is_closed: bool | None
    ended: str | None
    problem: str | None
    made: EventCounts | None
    recorded: EventCounts
    lost: EventCounts | None
    summarised: EventCounts | None
    """Of a folder of chapters: what is left of them only as a summary."""
    exact_until_us: int | None
    gaps: list[LostPeriod]
    excerpt: list[ExcerptPart] | None
    """None: the recording holds the whole run."""
    what_is_missing: list[str]
