"""Imbalance over steps: where one rank of a group needs much more in a step than the others."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from gpumemprof.ranks.compare.groups import Group, Grouping
from gpumemprof.ranks.compare.statistics import FEWEST, are_alike, usual
from gpumemprof.ranks.summary import RankSummary

__all__ = ["Imbalance", "WorstStep", "find_imbalance"]

_LEAST_OF_PEAK = 0.5


@dataclass(frozen=True)
class WorstStep:
    """The largest excess of one rank in one step."""

    step: int
    rank: RankSummary
    bytes: int
    median_bytes: int

    @property
    def more_bytes(self) -> int:
        """Above the median of its group in this step."""
        return self.bytes - self.median_bytes


@dataclass
class Imbalance:
    """How steps compare within groups; a step counts once, however many groups have it."""

    compared: set[int] = field(default_factory=set)
    uneven: set[int] = field(default_factory=set)
    """Steps in which one rank needs clearly more than the median of its group."""
    worst: WorstStep | None = None
    heaviest: Counter[str] = field(default_factory=Counter)
    """How often each rank, by its title, was the heaviest of its group in an uneven step."""
    first_step: dict[str, int] = field(default_factory=dict)
    """The first such step of each of these ranks."""


def find_imbalance(grouping: Grouping) -> Imbalance:
    """Over all groups. Steps are matched by their numbers, not by time: clocks may differ."""
    found = Imbalance()
    for group in grouping.groups:
        if len(group.ranks) >= FEWEST - 1:
            _compare(group, found)
    return found


def _compare(group: Group, found: Imbalance) -> None:
    ranks = [one for one in group.ranks if one.steps]
    if len(ranks) < FEWEST - 1:
        return
    steps = ranks[0].steps
    if all(one.steps is steps or one.steps == steps for one in ranks):
        for step, peaks in zip(steps, zip(*(one.step_peaks for one in ranks))):
            _look(step, peaks, ranks, found)
        return
    # A rank that ended early, or calls its steps differently, is compared where it has the step.
    by_step: dict[int, list[tuple[int, RankSummary]]] = {}
    for one in ranks:
        for step, peak in zip(one.steps, one.step_peaks):
            by_step.setdefault(step, []).append((peak, one))
    for step, row in sorted(by_step.items()):
        if len(row) >= FEWEST - 1:
            _look(step, tuple(peak for peak, _ in row), [one for _, one in row], found)


def _look(step: int, peaks: tuple[int, ...], ranks: list[RankSummary], found: Imbalance) -> None:
    found.compared.add(step)
    most = max(peaks)
    if are_alike(min(peaks), most):
        return
    ordinary = usual(peaks)
    if ordinary is None or most <= ordinary.limit_bytes:
        return
    rank = ranks[peaks.index(most)]
    # What is far below the rank's own peak, such as the rest after the last step, limits nothing.
    if most < _LEAST_OF_PEAK * (rank.peak_bytes or 0):
        return
    found.uneven.add(step)
    found.heaviest[rank.title] += 1
    found.first_step.setdefault(rank.title, step)
    worst = WorstStep(step, rank, most, round(ordinary.median_bytes))
    if found.worst is None or worst.more_bytes > found.worst.more_bytes:
        found.worst = worst
