"""Timeline: a device's memory over time in bounded memory."""

from __future__ import annotations

from typing import NamedTuple

from gpumemprof.alerts.reading import Reading

__all__ = ["Point", "Timeline"]


class Point(NamedTuple):
    """A stretch of time and the most that was in use in it."""

    timestamp: float
    """At its end, in seconds since 1970."""
    allocated_max: int | None
    reserved_max: int | None
    headroom_min: int | None


def _most(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else max(one, other)


def _least(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else min(one, other)


def _joined(one: Point, other: Point) -> Point:
    return Point(
        other.timestamp,
        _most(one.allocated_max, other.allocated_max),
        _most(one.reserved_max, other.reserved_max),
        _least(one.headroom_min, other.headroom_min),
    )


class Timeline:
    """Each point keeps the peaks of its stretch; when there are too many, neighbours are joined."""

    def __init__(self, most_points: int = 4096) -> None:
        self._most_points = max(4, most_points)
        self._points: list[Point] = []
        self._readings_per_point = 1
        self._open = 0  # readings in the last point

    def add(self, reading: Reading) -> None:
        """Add a reading."""
        point = Point(
            reading.unix_s, reading.allocated_peak, reading.reserved_peak, reading.headroom
        )
        if self._points and self._open < self._readings_per_point:
            self._points[-1] = _joined(self._points[-1], point)
            self._open += 1
            return
        if len(self._points) >= self._most_points:
            pairs = zip(self._points[::2], self._points[1::2])
            odd = self._points[-1:] if len(self._points) % 2 else []
            self._points = [_joined(*pair) for pair in pairs] + odd
            self._readings_per_point *= 2
        self._points.append(point)
        self._open = 1

    def points(self) -> list[Point]:
        """All points, oldest first."""
        return list(self._points)
