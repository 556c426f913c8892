"""The types of what ``gpumemprof ranks --json`` prints; docs/cli/ranks.md explains the keys."""

from __future__ import annotations

from typing import TypedDict

__all__ = [
    "ExcessJson",
    "FailureJson",
    "FailuresJson",
    "GroupJson",
    "ImbalanceJson",
    "JobJson",
    "LeaksJson",
    "OutlierJson",
    "RankJson",
    "RanksJson",
    "UnevenGroupJson",
]


class RankJson(TypedDict):
    """One rank; ``None`` for what is not known."""

    rank: int | None
    local_rank: int | None
    host: str | None
    card: str | None
    device: str
    mesh: dict[str, int]
    group: int
    """Its place in ``groups``."""
    peak_bytes: int | None
    peak_step: int | None
    peak_phase: str | None
    reserved_bytes: int | None
    outside_bytes: int | None
    nccl_bytes: int | None
    nccl_provenance: str | None
    headroom_bytes: int | None
    retries: int | None
    ooms: int | None
    last_step: int | None
    is_exact: bool
    is_whole: bool
    sources: dict[str, int]
    recording: str | None
    summary: str | None


class GroupJson(TypedDict):
    """Ranks that are compared with each other."""

    name: str
    coordinates: dict[str, int]
    ranks: list[int | None]
    median_peak_bytes: int | None


class ExcessJson(TypedDict):
    """What a rank holds more of than the median of its group."""

    name: str
    bytes: int
    more_bytes: int
    is_at_least: bool


class OutlierJson(TypedDict):
    """A rank that needs clearly more than its group."""

    rank: int | None
    group: int
    figure: str
    bytes: int
    median_bytes: int
    more_bytes: int
    step: int | None
    is_one_of_two: bool
    sources: list[ExcessJson]
    modules: list[ExcessJson]
    lines: list[ExcessJson]


class UnevenGroupJson(TypedDict):
    """Ranks of a place that needs more than the other places of one dimension."""

    name: str
    group: int
    dimension: str
    ranks: list[int | None]
    median_bytes: int
    others_bytes: int
    is_one_of_two: bool
    heaviest_rank: int | None
    step: int | None
    sources: list[ExcessJson]
    modules: list[ExcessJson]
    lines: list[ExcessJson]


class ImbalanceJson(TypedDict):
    """How steps compare within groups."""

    compared_steps: int
    uneven_steps: int
    worst_step: int | None
    worst_rank: int | None
    worst_more_bytes: int | None
    heaviest_ranks: dict[str, int]


class FailureJson(TypedDict):
    """How one rank failed."""

    rank: int | None
    kind: str
    type: str | None
    unix_ns: int | None
    step: int | None
    line: str | None
    cause: str | None


class FailuresJson(TypedDict):
    """Which rank failed first."""

    first: FailureJson | None
    candidates: list[int | None]
    """One of these failed first, but which is unknown; empty if `first` is known."""
    doubt: str | None
    also: list[FailureJson]
    followed: list[FailureJson]
    ranks_without_end: int
    silent_first: int | None


class LeaksJson(TypedDict):
    """Which ranks leak."""

    ranks: list[int | None]
    judged_ranks: int
    unknown_ranks: int
    bytes_per_step: int
    line: str | None
    first_step: int | None


class JobJson(TypedDict):
    """One job."""

    job: str | None
    restart: int | None
    """How often the launcher had started the job again."""
    command: str
    world_size: int
    missing_ranks: list[int]
    notes: list[str]
    nearest_rank: int | None
    headroom_bytes: int | None
    is_headroom_at_most: bool
    """What the rank holds outside of the pool is not known."""
    compared_by: str
    dimensions: list[str]
    groups: list[GroupJson]
    outliers: list[OutlierJson]
    uneven_groups: list[UnevenGroupJson]
    imbalance: ImbalanceJson
    failures: FailuresJson
    leaks: LeaksJson
    ranks: list[RankJson]


class RanksJson(TypedDict):
    """Everything that was read."""

    schema_version: int
    problems: list[str]
    notes: list[str]
    jobs: list[JobJson]
