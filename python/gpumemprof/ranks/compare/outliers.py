"""Ranks that need clearly more than their like, and what they hold that the others do not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpumemprof.ranks.compare.groups import Group, Grouping
from gpumemprof.ranks.compare.statistics import median, usual
from gpumemprof.ranks.summary import Named, RankSummary

__all__ = ["Excess", "Outlier", "compare_with_group", "find_outliers"]

_FIGURES = ("peak_bytes", "reserved_bytes", "outside_bytes")
_MOST_NAMED = 3
# Less than this share of the excess does not explain it.
_LEAST_SHARE = 0.05


@dataclass(frozen=True)
class Excess:
    """Something that a rank holds more of than the median of its group."""

    name: str
    bytes: int
    more_bytes: int
    is_bound: bool
    """The others do not list it, so the median is at most their smallest entry: at least this."""


@dataclass
class Outlier:
    """A rank whose figure is unusual in its group."""

    rank: RankSummary
    group: Group
    figure: str
    """Which figure: ``peak_bytes``, ``reserved_bytes`` or ``outside_bytes``."""
    bytes: int
    median_bytes: int
    is_pair: bool
    """The group has two ranks: which of them is unusual cannot be told."""
    sources: list[Excess]
    modules: list[Excess]
    sites: list[Excess]

    @property
    def more_bytes(self) -> int:
        """Above the median of the group."""
        return self.bytes - self.median_bytes


def find_outliers(grouping: Grouping) -> list[Outlier]:
    """All of them, the largest excess first; a rank comes once, with its first figure."""
    found: list[Outlier] = []
    for group in grouping.groups:
        seen: set[int] = set()
        for figure in _FIGURES:
            for outlier in _of_figure(group, figure):
                if id(outlier.rank) not in seen:
                    seen.add(id(outlier.rank))
                    found.append(outlier)
    return sorted(found, key=lambda one: -one.more_bytes)


def compare_with_group(rank: RankSummary, group: Group) -> Outlier | None:
    """What a rank holds at its peak that the median of its group does not, outlier or not.

    None if it is the only one, or holds no more.
    """
    peaks = [one.peak_bytes for one in group.ranks if one.peak_bytes is not None]
    ordinary = usual(peaks)
    if ordinary is None or rank.peak_bytes is None or rank.peak_bytes <= ordinary.median_bytes:
        return None
    middle = round(ordinary.median_bytes)
    found = Outlier(
        rank, group, "peak_bytes", rank.peak_bytes, middle, ordinary.is_pair, [], [], []
    )
    return _explained(found)


def _of_figure(group: Group, figure: str) -> list[Outlier]:
    known = [(value, one) for one in group.ranks if (value := getattr(one, figure)) is not None]
    ordinary = usual([value for value, _ in known])
    if ordinary is None:
        return []
    return [
        _explained(
            Outlier(
                one,
                group,
                figure,
                value,
                round(ordinary.median_bytes),
                ordinary.is_pair,
                [],
                [],
                [],
            )
        )
        for value, one in known
        if value > ordinary.limit_bytes
    ]


def _explained(outlier: Outlier) -> Outlier:
    if outlier.figure == "outside_bytes":
        return outlier
    rank = outlier.rank
    others = [one for one in outlier.group.ranks if one is not rank]
    least = _LEAST_SHARE * outlier.more_bytes
    outlier.sources = _more(
        tuple(rank.sources.items()),
        [tuple(one.sources.items()) for one in others],
        [0] * len(others),
        least,
    )
    mine, theirs = rank.held, [one.held for one in others]
    bounds = [_smallest(one.modules) for one in theirs]
    outlier.modules = _more(mine.modules, [one.modules for one in theirs], bounds, least)
    bounds = [_smallest(one.sites) if one.sites_left_out else 0 for one in theirs]
    outlier.sites = _more(mine.sites, [one.sites for one in theirs], bounds, least)
    return outlier


# As many as a summary lists; one with fewer lists all there are.
_LISTED = 24


def _smallest(named: Named) -> int:
    return named[-1][1] if len(named) >= _LISTED else 0


def _more(
    mine: Named, theirs: Sequence[Named], bounds: Sequence[int], least: float
) -> list[Excess]:
    tables = [dict(named) for named in theirs]
    found = []
    for name, held in mine:
        values = sorted(table.get(name, bound) for table, bound in zip(tables, bounds))
        middle = median(values) if values else 0.0
        is_bound = any(name not in table and bound for table, bound in zip(tables, bounds))
        if held - middle > least:
            found.append(Excess(name, held, round(held - middle), is_bound))
    return sorted(found, key=lambda one: -one.more_bytes)[:_MOST_NAMED]
