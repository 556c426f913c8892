"""Arithmetic with figures that may be unknown: ``None``, which never turns into 0."""

from __future__ import annotations

__all__ = ["difference", "highest", "total"]


def difference(late: int | None, early: int | None) -> int | None:
    """How much `late` exceeds `early`; unknown if either is.

    >>> difference(7, 5), difference(7, None)
    (2, None)
    """
    return None if late is None or early is None else late - early


def total(one: int | None, other: int | None) -> int | None:
    """The sum; unknown if either is.

    >>> total(7, 5), total(None, 5)
    (12, None)
    """
    return None if one is None or other is None else one + other


def highest(one: int | None, other: int | None) -> int | None:
    """The higher of the known figures: a lower bound if one is unknown.

    >>> highest(7, 5), highest(None, 5), highest(None, None)
    (7, 5, None)
    """
    if one is None or other is None:
        return other if one is None else one
    return max(one, other)
