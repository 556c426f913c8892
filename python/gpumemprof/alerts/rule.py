"""Rule: decides when a condition becomes an alert: once each time it is crossed."""

from __future__ import annotations

from dataclasses import dataclass

from gpumemprof.alerts.condition import Condition
from gpumemprof.alerts.reading import Reading
from gpumemprof.failure.spot import Event

__all__ = ["Alert", "EventRule", "Rule", "value_of"]


@dataclass(frozen=True)
class Alert:
    """A condition was met.

    >>> tracker.alerts[0].condition, tracker.alerts[0].value  # doctest: +SKIP
    ('headroom<5%', 0.0383)
    """

    condition: str
    """As it was written: ``headroom<5%``."""
    metric: str
    value: float
    """In bytes, bytes per minute, as a share (0 to 1), or a count."""
    bound: float
    device: str
    timestamp: float
    """Seconds since 1970."""
    message: str
    suppressed: int = 0
    """How often it was met since the last alert without one, because they came too fast."""

    def __str__(self) -> str:
        return self.message

    def to_dict(self) -> dict[str, str | float | int]:
        """Return it as a dictionary, for JSON.

        >>> json.dumps(alert.to_dict())  # doctest: +SKIP
        """
        return dict(self.__dict__)


class EventRule:
    """An event that is an alert each time, but not too often."""

    def __init__(self, condition: Condition, min_interval_s: float) -> None:
        self.condition = condition
        self._min_interval_s = min_interval_s
        self._last_s: float | None = None
        self._suppressed = 0

    def happened(self, event: Event, time_s: float) -> Alert | None:
        """The alert that it raises, if it does; by a clock that never goes back."""
        if event.kind != self.condition.metric:
            return None
        if self._last_s is not None and time_s - self._last_s < self._min_interval_s:
            self._suppressed += 1
            return None
        self._last_s = time_s
        suppressed, self._suppressed = self._suppressed, 0
        text = event.text
        if suppressed:
            text += f"; it happened {suppressed:,} more times since the last alert"
        kind = event.kind
        return Alert(kind, kind, 1.0, 0.0, event.device, event.unix_s, text, suppressed)


def value_of(condition: Condition, reading: Reading, growth: float | None) -> float | None:
    """What the condition compares, at the interval's most critical moment; None if unknown."""
    is_low = condition.operator.startswith("<")
    values: dict[str, float | None] = {
        "allocated": reading.allocated_low if is_low else reading.allocated_peak,
        "reserved": reading.reserved if is_low else reading.reserved_peak,
        "used": reading.card_used,
        "headroom": reading.headroom,
        "growth": growth,
        "fragmentation": reading.fragmentation,
        "retries": reading.retries,
    }
    value = values[condition.metric]
    if value is None or not condition.is_share or condition.metric == "fragmentation":
        return value
    return None if not reading.capacity else value / reading.capacity


class Rule:
    """One condition on one device."""

    def __init__(self, condition: Condition, device: str, min_interval_s: float) -> None:
        self.condition = condition
        self._device = device
        self._min_interval_s = min_interval_s
        self._is_met = False
        self._is_waiting = False  # it is met, but the last alert was too short a time ago
        self._last_s: float | None = None
        self._suppressed = 0

    def look(self, reading: Reading, growth: float | None) -> Alert | None:
        """The alert that this reading raises, if it does."""
        value = value_of(self.condition, reading, growth)
        if value is None:
            return None
        if self._is_met and self.condition.is_over(value):
            self._is_met = self._is_waiting = False
        is_new = not self._is_met and self.condition.is_met(value)
        self._is_met |= is_new
        is_soon = self._last_s is not None and reading.time_s - self._last_s < self._min_interval_s
        if is_new and is_soon:
            self._suppressed += 1
            self._is_waiting = True
        is_late = self._is_waiting and self.condition.is_met(value)
        if is_soon or not (is_new or is_late):
            return None
        # The one that waited is raised now, and no longer one of those that were not.
        self._suppressed -= self._is_waiting
        self._is_waiting = False
        self._last_s = reading.time_s
        suppressed, self._suppressed = self._suppressed, 0
        shown = self.condition.shown(value)
        text = f"{self.condition.metric} of {self._device} is {shown} ({self.condition.text})"
        if suppressed:
            text += f"; met {suppressed:,} more times since the last alert"
        return Alert(
            self.condition.text,
            self.condition.metric,
            value,
            self.condition.bound,
            self._device,
            reading.unix_s,
            text,
            suppressed,
        )
