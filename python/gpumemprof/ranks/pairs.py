"""Compares two runs of a job: the ranks of the same number, by their peaks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpumemprof import _core
from gpumemprof.errors import UsageError
from gpumemprof.ranks.summary import RankSummary

__all__ = ["JobPairs", "Limit", "RankPair", "find_pairs", "parse_limit"]


@dataclass(frozen=True)
class RankPair:
    """A rank in both runs, with a known peak in each."""

    first: RankSummary
    second: RankSummary
    first_bytes: int
    second_bytes: int

    @property
    def difference_bytes(self) -> int:
        """How much more the second run needs; negative if it needs less."""
        return self.second_bytes - self.first_bytes


@dataclass(frozen=True)
class JobPairs:
    """All ranks of both runs."""

    pairs: list[RankPair]
    """The most growth first."""
    only_first: list[RankSummary]
    only_second: list[RankSummary]
    unknown: list[RankSummary]
    """Ranks of both runs whose peak is not known in one of them."""

    @property
    def is_certain(self) -> bool:
        """Whether no peak of the second run may be higher than what was recorded."""
        is_whole = all(pair.second.is_whole for pair in self.pairs)
        return is_whole and not self.only_first and not self.unknown


@dataclass(frozen=True)
class Limit:
    """How much more the second run may need: a share of the first, or bytes."""

    text: str
    share: float | None
    most_bytes: int

    def is_exceeded(self, pairs: JobPairs) -> bool:
        """By any rank; one that only the second run has exceeds every limit."""
        return bool(pairs.only_second) or any(map(self._is_exceeded_by, pairs.pairs))

    def _is_exceeded_by(self, pair: RankPair) -> bool:
        most = self.most_bytes if self.share is None else pair.first_bytes * self.share
        return pair.difference_bytes > most


def parse_limit(text: str) -> Limit:
    """``5%``, ``200MiB`` or ``0``, as for two recordings.

    >>> parse_limit("5%").share
    0.05

    Raises:
        UsageError: it is neither.
    """
    number = text.removesuffix("%")
    if number != text:
        try:
            share = float(number) / 100
        except ValueError:
            share = -1.0
        if 0 <= share < float("inf"):
            return Limit(text, share, 0)
    else:
        found = _core.parse_bytes(text)
        # A small number without a unit was meant to have one.
        if found is not None and not (0 < found < 1 << 20 and text.strip().isdecimal()):
            return Limit(text, None, found)
    raise UsageError(
        f"--fail-above takes a share or a size with its unit, not '{text}'",
        "usage",
        "",
        "try --fail-above 5% or --fail-above 200MiB",
    )


def find_pairs(first: Sequence[RankSummary], second: Sequence[RankSummary]) -> JobPairs:
    """Pair ranks by their numbers."""
    before = {one.rank: one for one in first}
    after = {one.rank: one for one in second}
    pairs: list[RankPair] = []
    unknown = []
    for rank, one in before.items():
        other = after.get(rank)
        if other is None:
            continue
        if one.peak_bytes is None or other.peak_bytes is None:
            unknown.append(other)
        else:
            pairs.append(RankPair(one, other, one.peak_bytes, other.peak_bytes))
    pairs.sort(key=lambda pair: (-pair.difference_bytes, pair.second.number))
    return JobPairs(
        pairs,
        [one for rank, one in before.items() if rank not in after],
        [one for rank, one in after.items() if rank not in before],
        unknown,
    )
