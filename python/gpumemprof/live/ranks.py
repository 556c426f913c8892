"""What the ranks of a machine look like together, in a line or two."""

from __future__ import annotations

from collections.abc import Sequence

from gpumemprof.live.figures import Row, shown_bytes
from gpumemprof.ranks.compare.statistics import median

__all__ = ["ranks_line", "silence_line"]

# Ranks wait for each other at every step, so one that is further behind stands.
_BEHIND_STEPS = 2
# Saving a checkpoint takes a while, too.
_SILENT_SECONDS = 120.0


def ranks_line(rows: Sequence[Row]) -> str:
    """The rank with the least headroom or the largest peak, and one that is behind.

    Empty if there are not several ranks of one program.
    """
    by_rank = _by_rank(rows)
    if not by_rank:
        return ""
    words = [_headroom(by_rank), _largest(by_rank), _behind(by_rank)]
    return f"{_count(by_rank)}: {'; '.join(word for word in words if word)}"


def silence_line(rows: Sequence[Row]) -> str:
    """That nothing happens on any rank that trains, though all of them run; empty otherwise."""
    by_rank = _by_rank([row for row in rows if not row.recording.state.is_over])
    steps: dict[int, int] = {}
    idle: list[float] = []
    for rank, row in by_rank.items():
        seconds = row.recording.idle_seconds
        is_silent = row.recording.state.name == "recording" and (seconds or 0) >= _SILENT_SECONDS
        if seconds is None or row.step is None or not is_silent:
            return ""
        steps[rank] = row.step
        idle.append(seconds)
    if not idle:
        return ""
    text = f"no rank has allocated or stepped for {min(idle) / 60:.0f} min: the job may hang"
    last = [rank for rank, step in steps.items() if step == min(steps.values())]
    if len(last) == 1:
        text += f"; rank {last[0]} is behind, and the others may wait for it"
    return text


def _by_rank(rows: Sequence[Row]) -> dict[int, Row]:
    """Of each rank the fullest card; empty if there are not several ranks of one program."""
    by_rank: dict[int, Row] = {}
    for row in rows:
        if row.rank is None or not row.device:
            continue
        known = by_rank.get(row.rank)
        if known is None or (_peak(row) or 0) > (_peak(known) or 0):
            by_rank[row.rank] = row
    is_one_job = len(by_rank) > 1 and len({row.program for row in by_rank.values()}) == 1
    return by_rank if is_one_job else {}


def _peak(row: Row) -> int | None:
    return row.bytes_of("peak_allocated_bytes")


def _count(by_rank: dict[int, Row]) -> str:
    worlds = {row.recording.report.get("world_size") for row in by_rank.values()} - {None}
    world = worlds.pop() if len(worlds) == 1 else None
    return f"{len(by_rank)} of {world} ranks" if world else f"{len(by_rank)} ranks"


def _headroom(by_rank: dict[int, Row]) -> str:
    known = {
        rank: left for rank, row in by_rank.items() if (left := row.headroom_bytes) is not None
    }
    if not known:
        return ""
    rank = min(known, key=lambda one: known[one])
    return f"least headroom on rank {rank}, {shown_bytes(known[rank])}"


def _largest(by_rank: dict[int, Row]) -> str:
    known = {rank: peak for rank, row in by_rank.items() if (peak := _peak(row)) is not None}
    if not known:
        return ""
    rank = max(known, key=lambda one: known[one])
    middle = shown_bytes(median(sorted(known.values())))
    return f"largest peak on rank {rank}, {shown_bytes(known[rank])} (median {middle})"


def _behind(by_rank: dict[int, Row]) -> str:
    steps = {rank: row.step for rank, row in by_rank.items() if row.step is not None}
    if not steps:
        return ""
    last, most = min(steps, key=lambda rank: steps[rank]), max(steps.values())
    if most - steps[last] < _BEHIND_STEPS:
        return ""
    return f"rank {last} is behind, at step {steps[last]:,} of {most:,}"
