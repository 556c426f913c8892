"""How random numbers are distributed, and what part of them is below a limit."""

from __future__ import annotations

import math
from typing import NamedTuple

__all__ = ["Folded", "Normal", "Rectified", "Uniform"]


class Uniform(NamedTuple):
    low: float
    high: float

    def share_below(self, number: float) -> float:
        width = self.high - self.low
        return min(1.0, max(0.0, (number - self.low) / width)) if width > 0 else 1.0

    def scaled(self, factor: float, summand: float) -> Uniform:
        ends = sorted((self.low * factor + summand, self.high * factor + summand))
        return Uniform(ends[0], ends[1])


class Normal(NamedTuple):
    mean: float
    deviation: float

    def share_below(self, number: float) -> float:
        scaled = (number - self.mean) / (self.deviation or 1.0)
        return 0.5 * (1 + math.erf(scaled / math.sqrt(2)))

    def scaled(self, factor: float, summand: float) -> Normal:
        return Normal(self.mean * factor + summand, abs(self.deviation * factor))


class Folded(NamedTuple):
    """Sizes of random numbers, without their signs."""

    source: Uniform | Normal

    def share_below(self, number: float) -> float:
        if number <= 0:
            return 0.0
        return self.source.share_below(number) - self.source.share_below(-number)


class Rectified(NamedTuple):
    """Random numbers, of which the negative ones have become 0."""

    source: Uniform | Normal

    def share_below(self, number: float) -> float:
        """Zeros are not above 0."""
        return self.source.share_below(number) if number >= 0 else 0.0
