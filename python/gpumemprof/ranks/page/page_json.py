"""The keys of what the page reads. Bytes; None is what is not known. A place is a rank's row."""

from __future__ import annotations

from typing import TypedDict

__all__ = [
    "CellsJson",
    "GroupPageJson",
    "JobPageJson",
    "MarkJson",
    "MarksJson",
    "MoreJson",
    "PageJson",
    "RankColumnsJson",
    "SaidJson",
    "WorstJson",
]


class SaidJson(TypedDict):
    """A sentence of the report."""

    text: str
    is_detail: bool


class CellsJson(TypedDict):
    """The heat map; see `Cells`."""

    first_steps: list[int]
    last_steps: list[int]
    step_count: int
    unit_bytes: int
    rows: dict[str, list[list[int | None]]]


class GroupPageJson(TypedDict):
    """Ranks that are compared with each other."""

    name: str
    coordinates: list[int]
    median_peak_bytes: int | None
    largest_peak_bytes: int | None
    largest_rank: int | None


class RankColumnsJson(TypedDict):
    """A value for each rank."""

    rank: list[int | None]
    name: list[str]
    host: list[str | None]
    device: list[str]
    card: list[str | None]
    group: list[int]
    total_bytes: list[int | None]
    limit_bytes: list[int | None]
    peak_bytes: list[int | None]
    peak_step: list[int | None]
    reserved_bytes: list[int | None]
    outside_bytes: list[int | None]
    headroom_bytes: list[int | None]
    retries: list[int | None]
    recording: list[str | None]
    path: list[str | None]
    """The summary, where there is no recording."""


class MarkJson(TypedDict):
    """Something to look at."""

    place: int
    step: int | None
    figure: str
    """Which figure is unusual, or the kind of the failure."""


class MarksJson(TypedDict):
    """What is marked in the heat map."""

    nearest: int | None
    outliers: list[MarkJson]
    failed_first: MarkJson | None
    silent_first: MarkJson | None
    also_failed: list[MarkJson]
    followed: list[int]
    leaking: list[int]


class MoreJson(TypedDict):
    """What a rank holds more of than the median of its group."""

    name: str
    bytes: int
    more_bytes: int
    is_at_least: bool


class WorstJson(TypedDict):
    """The worst rank beside the median of its group."""

    place: int
    is_outlier: bool
    is_one_of_two: bool
    group: str
    ranks: int
    bytes: int
    more_bytes: int
    sources: list[MoreJson]
    modules: list[MoreJson]
    lines: list[MoreJson]


class JobPageJson(TypedDict):
    """One job."""

    title: str
    nearest: str
    notes: list[str]
    failures: list[SaidJson]
    findings: list[list[SaidJson]]
    world_size: int
    dimensions: list[str]
    groups: list[GroupPageJson]
    ranks: RankColumnsJson
    marks: MarksJson
    worst: WorstJson | None
    cells: CellsJson


class PageJson(TypedDict):
    """The whole page, but for whether a click can open a recording: the page knows that."""

    made_unix_ns: int
    notes: list[str]
    jobs: list[JobPageJson]
