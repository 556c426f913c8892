"""Robust statistics: what is usual in a group, and from where on a value is not."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["Usual", "are_alike", "median", "usual"]

# Six deviations of a normal distribution: a job of 16,384 like ranks shows none.
_DEVIATIONS = 6.0
_NORMAL = 1.4826  # the standard deviation in medians of absolute deviations
# Differences below both go unnoticed: ranks are never equal to the byte.
_LEAST_SHARE = 0.05
_LEAST_BYTES = 1 << 20
# Of two values, neither is unusual; they must differ clearly.
_PAIR_SHARE = 0.10
FEWEST = 3


class Usual:
    """The median of a group, and the value above which a member is an outlier."""

    def __init__(self, median_bytes: float, limit_bytes: float, is_pair: bool) -> None:
        """See `usual`."""
        self.median_bytes = median_bytes
        self.limit_bytes = limit_bytes
        self.is_pair = is_pair


def median(ordered: Sequence[float]) -> float:
    """Of values in order.

    >>> median([1, 2, 4, 9])
    3.0
    """
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return float(ordered[middle])
    return (ordered[middle - 1] + ordered[middle]) / 2


def are_alike(least: int, most: int) -> bool:
    """Whether no value of a group between these can be an outlier: much faster than `usual`."""
    return most - least <= max(_LEAST_SHARE * least, _LEAST_BYTES)


def usual(values: Sequence[int]) -> Usual | None:
    """What is usual among these; None if there are fewer than two.

    >>> usual([100 << 20, 101 << 20, 102 << 20, 150 << 20]).limit_bytes / 2**20
    110.3956
    """
    if len(values) < FEWEST:
        return _of_pair(values) if len(values) == 2 else None
    ordered = sorted(values)
    middle = median(ordered)
    floor = max(_LEAST_SHARE * middle, _LEAST_BYTES)
    if ordered[-1] - middle <= floor:
        return Usual(middle, middle + floor, False)
    deviation = median(sorted(abs(value - middle) for value in values))
    return Usual(middle, middle + max(floor, _DEVIATIONS * _NORMAL * deviation), False)


def _of_pair(values: Sequence[int]) -> Usual:
    """The smaller one counts as usual."""
    smaller = min(values)
    return Usual(smaller, smaller + max(_PAIR_SHARE * smaller, _LEAST_BYTES), True)
