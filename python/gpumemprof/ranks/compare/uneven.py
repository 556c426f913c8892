"""Places of the mesh that differ as a whole: all ranks of one expert, or of one replica."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpumemprof.ranks.compare.groups import Group, Grouping, dimension_kind
from gpumemprof.ranks.compare.outliers import Outlier, compare_with_group
from gpumemprof.ranks.compare.statistics import median, usual
from gpumemprof.ranks.summary import RankSummary

__all__ = ["UnevenPlace", "find_uneven_places"]


@dataclass(frozen=True)
class UnevenPlace:
    """All ranks of a place need more than those of the other places of one dimension."""

    dimension: str
    name: str
    group: Group
    """The group that it is, or that it is a part of."""
    ranks: list[RankSummary]
    median_bytes: int
    others_bytes: int
    is_pair: bool
    """There are two places: which of them is unusual cannot be told."""
    heaviest: RankSummary
    more: Outlier | None
    """What the heaviest rank holds that the ranks of the other places do not."""


@dataclass(frozen=True)
class _Place:
    name: str
    group: Group
    ranks: list[RankSummary]

    def peaks(self) -> list[int]:
        return sorted(one.peak_bytes for one in self.ranks if one.peak_bytes is not None)


def find_uneven_places(grouping: Grouping, outliers: Sequence[Outlier]) -> list[UnevenPlace]:
    """The largest difference first. A group with an outlier is explained by that."""
    found: list[UnevenPlace] = []
    for number, name in enumerate(grouping.dimensions):
        if dimension_kind(name) == "pipeline":
            continue
        rows: dict[object, list[_Place]] = {}
        for group in grouping.groups:
            rest = group.key[:number] + group.key[number + 1 :]
            rows.setdefault(rest, []).append(_Place(group.name, group, group.ranks))
        for row in rows.values():
            found += _uneven(name, row, 1)
    explained = {id(one.group) for one in outliers}
    for group in grouping.groups:
        if id(group) not in explained:
            for name in grouping.compared:
                found += _uneven(name, _places(group, name), 2)
    return sorted(found, key=lambda one: one.others_bytes - one.median_bytes)


def _places(group: Group, name: str) -> list[_Place]:
    """The ranks of a group, by their places in a dimension over which they are compared."""
    by_place: dict[int, list[RankSummary]] = {}
    for one in group.ranks:
        for dimension in one.mesh:
            if dimension.name == name:
                by_place.setdefault(dimension.coordinate, []).append(one)
    prefix = f"{group.name} · " if group.key else ""
    return [_Place(f"{prefix}{name} {place}", group, by_place[place]) for place in sorted(by_place)]


def _uneven(dimension: str, row: list[_Place], least_ranks: int) -> list[UnevenPlace]:
    """Those of a row of places in which every rank is above what is usual."""
    known = [(round(median(peaks)), place) for place in row if (peaks := place.peaks())]
    ordinary = usual([value for value, _ in known])
    if ordinary is None:
        return []
    found = []
    for value, place in known:
        others = [one for _, other in known if other is not place for one in other.ranks]
        # A single rank would be an outlier; of several, all must be heavier.
        if len(place.ranks) < least_ranks or value <= ordinary.limit_bytes:
            continue
        if least_ranks > 1 and place.peaks()[0] <= max(_peak(one) for one in others):
            continue
        heaviest = max(place.ranks, key=_peak)
        more = compare_with_group(heaviest, Group((), place.name, [heaviest, *others]))
        found.append(
            UnevenPlace(
                dimension,
                place.name,
                place.group,
                place.ranks,
                value,
                round(ordinary.median_bytes),
                ordinary.is_pair,
                heaviest,
                more,
            )
        )
    return found


def _peak(rank: RankSummary) -> int:
    return rank.peak_bytes or 0
