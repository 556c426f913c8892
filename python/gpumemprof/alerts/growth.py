"""GrowthMeter: by how much the least memory in use rises per minute."""

from __future__ import annotations

from collections import deque

__all__ = ["GrowthMeter"]

_WINDOW_S = 5.0
_FEWEST_WINDOWS = 6
_MOST_WINDOWS = 60  # five minutes


class GrowthMeter:
    """Compares floors, not peaks: what a step allocates and frees again is no growth.

    Each window keeps its lowest figure. The floor of the later half against that of the earlier
    half is the growth; it must rise in each third too, so that one jump, such as the optimizer's
    state in the first step, counts only while it is new.
    """

    def __init__(self) -> None:
        self._floors: deque[tuple[float, int]] = deque(maxlen=_MOST_WINDOWS)
        self._start: float | None = None
        self._low: int | None = None

    def add(self, time_s: float, low: int | None) -> None:
        """Add the lowest figure of an interval."""
        if low is None:
            return
        if self._start is None:
            self._start = time_s
        self._low = low if self._low is None else min(self._low, low)
        if time_s - self._start >= _WINDOW_S:
            self._floors.append((time_s, self._low))
            self._start, self._low = time_s, None

    def per_minute(self) -> float | None:
        """Bytes per minute, 0 if nothing grows; None before there is enough to compare."""
        count = len(self._floors)
        if count < _FEWEST_WINDOWS:
            return None
        floors = list(self._floors)
        third = count // 3
        lows = [min(low for _, low in floors[i * third : (i + 1) * third]) for i in range(3)]
        if not lows[0] < lows[1] < lows[2]:
            return 0.0
        seconds = floors[2 * third][0] - floors[0][0]
        return (lows[2] - lows[0]) / max(seconds, _WINDOW_S) * 60
