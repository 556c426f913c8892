"""Conditions such as ``headroom < 5%`` or ``growth > 100 MiB/min``: what an alert is about."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Callable

from gpumemprof import _core
from gpumemprof.errors import UsageError

__all__ = ["EVENTS", "METRICS", "Condition", "parse"]

_SIZES = "a size (4 GiB) or a share of the card (90%)"
METRICS = {
    "allocated": _SIZES,
    "reserved": _SIZES,
    "used": _SIZES,
    "headroom": _SIZES,
    "growth": "a size per time (100 MiB/min)",
    "fragmentation": "a share (30%)",
    "retries": "a number",
}
"""What can be watched, and in which unit."""

EVENTS = ("out_of_memory", "exception")
"""What happens at a moment: there is nothing to compare."""

_FORM = re.compile(
    r"\s*([A-Za-z_]+)\s*(<=|>=|<|>)\s*(\d+(?:\.\d+)?)\s*([A-Za-z%]*)\s*(?:/\s*(\w+))?\s*"
)
_COMPARE: dict[str, Callable[[float, float], bool]] = {
    "<": lambda value, bound: value < bound,
    "<=": lambda value, bound: value <= bound,
    ">": lambda value, bound: value > bound,
    ">=": lambda value, bound: value >= bound,
}
_PER_MINUTE = {"s": 60.0, "sec": 60.0, "min": 1.0, "m": 1.0, "h": 1 / 60, "hour": 1 / 60}
# How far a value must come back before the same condition can be met again.
_MARGIN = 0.02


def _mistake(text: str, why: str) -> UsageError:
    return UsageError(
        f"'{text}' is not an alert: {why}",
        "usage",
        "",
        f"write a metric ({', '.join(METRICS)}), one of < <= > >=, and a value, "
        'such as "headroom<5%", "reserved>70GiB" or "growth>100MiB/min"; or '
        f"{' or '.join(EVENTS)}",
    )


@dataclass(frozen=True)
class Condition:
    """One comparison; values are in bytes, bytes per minute, shares (0 to 1) or a count."""

    metric: str
    operator: str
    bound: float
    is_share: bool
    """Of the card's memory, or for fragmentation of what is reserved."""
    text: str

    @property
    def is_event(self) -> bool:
        """Whether it is met by something that happens."""
        return self.metric in EVENTS

    @property
    def needs_card(self) -> bool:
        """Whether it can only be decided if the card's total memory is known."""
        return self.metric in ("used", "headroom") or (
            self.is_share and self.metric in ("allocated", "reserved")
        )

    def is_met(self, value: float) -> bool:
        """Whether the value is beyond the bound."""
        return _COMPARE[self.operator](value, self.bound)

    def is_over(self, value: float) -> bool:
        """Whether the value has come back far enough that the condition counts as new next time."""
        if self.is_met(value):
            return False
        # A bound of 0 has no margin.
        room = self.bound * _MARGIN if self.metric != "retries" else 0
        if self.operator.startswith(">"):
            return value <= self.bound - room
        return value >= self.bound + room

    def shown(self, value: float) -> str:
        """The value in the condition's own unit."""
        if self.is_share:
            return f"{value * 100:.1f} %"
        if self.metric == "retries":
            return f"{value:.0f}"
        size = _core.format_bytes(max(0, round(value)))
        return f"{size}/min" if self.metric == "growth" else size


def _size(text: str, number: str, unit: str) -> float:
    size = _core.parse_bytes(f"{number}{unit}") if unit else None
    if size is None:
        raise _mistake(
            text, f"'{unit}' is not a unit of memory" if unit else "the value has no unit"
        )
    return float(size)


def parse(text: str) -> Condition:
    """Read a condition.

    >>> parse("headroom<5%").bound
    0.05
    >>> parse("growth > 1 GiB/h").bound == 2**30 / 60
    True

    Raises:
        UsageError: it is not one; the sentence says what is accepted.
    """
    if (event := text.strip().lower()) in EVENTS:
        return Condition(event, ">", 0.0, False, event)
    found = _FORM.fullmatch(text)
    if found is None:
        raise _mistake(text, "it must be a metric, a comparison and a value")
    metric, operator, number, unit, per = found.groups()
    metric = metric.lower()
    if metric not in METRICS:
        raise _mistake(text, f"there is no metric '{metric}'")
    is_share = unit == "%"
    if metric == "retries":
        if unit or per:
            raise _mistake(text, "retries are counted without a unit")
        return Condition(metric, operator, float(number), False, text.strip())
    if metric == "fragmentation" and not is_share:
        raise _mistake(text, "fragmentation is a share of what is reserved, such as 30%")
    if metric == "growth" and (is_share or per not in _PER_MINUTE):
        raise _mistake(text, "growth is a size per time, such as 100MiB/min")
    if metric != "growth" and per:
        raise _mistake(text, f"{metric} is not a rate")
    if is_share:
        bound = float(number) / 100
        if not 0 <= bound <= 1:
            raise _mistake(text, "a share is between 0% and 100%")
    else:
        bound = _size(text, number, unit)
    if metric == "growth":
        bound *= _PER_MINUTE[per]
    if not math.isfinite(bound):
        raise _mistake(text, "the value is too large")
    return Condition(metric, operator, bound, is_share, text.strip())
