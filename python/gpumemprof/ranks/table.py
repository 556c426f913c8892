"""The table of ranks: each rank a row while they fit a screen, else groups of them."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

from gpumemprof.estimate.command.page import page_width, paragraph
from gpumemprof.estimate.command.table import table
from gpumemprof.estimate.command.units import size
from gpumemprof.ranks.compare.groups import Group, Grouping
from gpumemprof.ranks.compare.statistics import median
from gpumemprof.ranks.summary import RankSummary

__all__ = ["program_table", "rank_name", "rank_table"]

_MOST_RANKS = 16
_MOST_ROWS = 20
_MOST_COMMAND = 30
_RANK_HEAD = ["rank", "", "peak", "reserved", "outside", "retries", "peak step"]
_GROUP_HEAD = ["group", "ranks", "peak", "largest", "on rank", "reserved", "outside"]
_GROUP_HEAD += ["retries", "step"]
# Left out, the first first, where the terminal is too narrow.
_DISPENSABLE = ("step", "last step", "outside", "retries", "reserved")


def rank_name(rank: RankSummary) -> str:
    """The rank and its place in the mesh; its file if it says no number.

    >>> rank_name(rank)  # doctest: +SKIP
    'rank 3 (pp 0 · dp 3)'
    """
    place = _place(rank)
    return f"{rank.title} ({place})" if place else rank.title


def _place(rank: RankSummary) -> str:
    used = [one for one in rank.mesh if one.size is None or one.size > 1]
    return " · ".join(f"{one.name} {one.coordinate}" for one in used)


def program_table(ranks: Sequence[RankSummary]) -> list[str]:
    """Recordings that have nothing to do with each other."""
    shown = ranks[:_MOST_ROWS]
    rows = [
        [
            one.title,
            textwrap.shorten(one.command or "-", _MOST_COMMAND, placeholder="…"),
            _size(one.peak_bytes),
            _size(one.reserved_bytes),
            _count(one.last_step),
        ]
        for one in shown
    ]
    head = ["recording", "program", "peak", "reserved", "last step"]
    lines = _columns([head, *rows], [True, True, False, False, False])
    if len(shown) < len(ranks):
        lines.append(f"  and {len(ranks) - len(shown):,} older ones")
    return lines


def rank_table(ranks: Sequence[RankSummary], grouping: Grouping) -> list[str]:
    """Lines that fit one screen, whatever the number of ranks."""
    if len(ranks) <= _MOST_RANKS:
        return _of_ranks(ranks)
    groups, name = _folded(grouping)
    shown = groups
    if len(groups) > _MOST_ROWS:
        shown = sorted(groups, key=_largest, reverse=True)[:_MOST_ROWS]
    rows = [_group_row(group) for group in shown]
    lines = _columns([_GROUP_HEAD, *rows], [True, *[False] * (len(_GROUP_HEAD) - 1)])
    if len(shown) < len(groups):
        lines.append(f"  and {len(groups) - len(shown):,} more groups with smaller peaks")
    if name:
        what = "peak is the median, retries are the sum, the rest is the largest"
        lines += paragraph(f"Rows are folded by {name}: {what}. --json lists every rank.", 2)
    return lines


def _of_ranks(ranks: Sequence[RankSummary]) -> list[str]:
    rows = [
        [
            one.title.removeprefix("rank "),
            _place(one),
            _size(one.peak_bytes),
            _size(one.reserved_bytes),
            _size(one.outside_bytes),
            _count(one.retries),
            _count(one.peak_step),
        ]
        for one in ranks
    ]
    are_files = any(one.rank is None for one in ranks)
    return _columns([_RANK_HEAD, *rows], [are_files, True, False, False, False, False, False])


def _columns(rows: list[list[str]], is_text: list[bool]) -> list[str]:
    """Without the columns in which nothing is known, and those for which there is no room."""
    kept = [
        column
        for column in range(len(is_text))
        if any(row[column] not in ("", "-") for row in rows[1:])
    ]
    for name in (None, *_DISPENSABLE):
        kept = [column for column in kept if rows[0][column] != name]
        lines = table(
            [[row[column] for column in kept] for row in rows], [is_text[column] for column in kept]
        )
        if max(map(len, lines)) <= page_width():
            break
    return lines


def _folded(grouping: Grouping) -> tuple[list[Group], str]:
    """The groups; with fewer dimensions while there are more than fit a screen."""
    groups, names = grouping.groups, list(grouping.dimensions)
    while len(groups) > _MOST_ROWS and len(names) > 1:
        names.pop()
        merged: dict[tuple[tuple[str, int], ...], Group] = {}
        for group in groups:
            key = group.key[: len(names)]
            name = " · ".join(f"{dimension} {place}" for dimension, place in key)
            merged.setdefault(key, Group(key, name, [])).ranks.extend(group.ranks)
        groups = list(merged.values())
    return groups, ", ".join(names)


def _largest(group: Group) -> int:
    return max((one.peak_bytes or 0 for one in group.ranks), default=0)


def _group_row(group: Group) -> list[str]:
    known = [one for one in group.ranks if one.peak_bytes is not None]
    worst = max(known, key=lambda one: one.peak_bytes or 0, default=None)
    peaks = sorted(one.peak_bytes or 0 for one in known)
    return [
        group.name,
        f"{len(group.ranks):,}",
        _size(round(median(peaks)) if peaks else None),
        _size(None if worst is None else worst.peak_bytes),
        "-" if worst is None else worst.title.removeprefix("rank "),
        _size(_most(one.reserved_bytes for one in group.ranks)),
        _size(_most(one.outside_bytes for one in group.ranks)),
        _count(_sum([one.retries for one in group.ranks])),
        _count(None if worst is None else worst.peak_step),
    ]


def _most(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return max(known, default=None)


def _sum(values: list[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def _size(count: int | None) -> str:
    return "-" if count is None else size(count)


def _count(count: int | None) -> str:
    return "-" if count is None else f"{count:,}"
