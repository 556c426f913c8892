"""Reading: what is known about a device in one short interval, exact peaks included."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Reading"]


@dataclass(frozen=True)
class Reading:
    """One interval; bytes, None where unknown."""

    time_s: float
    """At its end, by a clock that never goes back."""
    unix_s: float
    allocated: int | None
    """At its end."""
    reserved: int | None
    allocated_peak: int | None
    """The most in it, however short."""
    allocated_low: int | None
    """The least that its two ends show."""
    reserved_peak: int | None
    reserved_at_peak: int | None
    """When most was allocated."""
    card_used: int | None = None
    """By all processes, at the last look."""
    capacity: int | None = None
    """What the card has."""
    limit: int | None = None
    """What this process may reserve of it; None: everything."""
    outside: int | None = None
    """In use on the card, but not by this process's pool."""
    retries: int | None = None
    """Since tracking began."""

    @property
    def headroom(self) -> int | None:
        """What could still have been allocated at the tightest moment."""
        if self.capacity is None or self.outside is None or self.allocated_peak is None:
            return None
        room = self.capacity - self.outside
        if self.limit is not None:
            room = min(room, self.limit)
        return max(0, room - self.allocated_peak)

    @property
    def fragmentation(self) -> float | None:
        """The share of reserved memory that was not in use when most was allocated."""
        if not self.reserved_at_peak or self.allocated_peak is None:
            return None
        return max(0.0, 1 - self.allocated_peak / self.reserved_at_peak)
