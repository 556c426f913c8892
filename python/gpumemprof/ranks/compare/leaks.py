"""Leaks: on one rank, on some, or on all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from gpumemprof.ranks.compare.statistics import median
from gpumemprof.ranks.summary import RankSummary

__all__ = ["Leaks", "find_leaks"]


@dataclass
class Leaks:
    """Which ranks leak, and where."""

    ranks: list[RankSummary]
    """The fastest first."""
    judged: int
    """Ranks with steps enough to tell."""
    unknown: int
    """Ranks that were read in parts, of which leaks are not known."""
    bytes_per_step: int
    """The median of those that leak."""
    line: str | None
    """The line that leaks on most of them."""
    line_ranks: int
    first_step: int | None


def find_leaks(ranks: Sequence[RankSummary]) -> Leaks:
    """As the report on each rank decided."""
    leaking = [one for one in ranks if one.leak_verdict == "leak"]
    leaking.sort(key=lambda one: -one.leak_bytes_per_step)
    judged = sum(one.leak_verdict not in (None, "too_short") for one in ranks)
    unknown = sum(one.leak_verdict is None for one in ranks)
    lines: Counter[str] = Counter()
    for one in leaking:
        lines.update({leak.line for leak in one.leak_lines[:1] if leak.line is not None})
    line, count = lines.most_common(1)[0] if lines else (None, 0)
    steps = [leak.first_step for one in leaking for leak in one.leak_lines if leak.line == line]
    rate = median(sorted(one.leak_bytes_per_step for one in leaking)) if leaking else 0.0
    return Leaks(leaking, judged, unknown, round(rate), line, count, min(steps, default=None))
