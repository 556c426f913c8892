"""The figures of a scope, whatever their source: counted natively, or read from counters.

The native classes (``_core.ScopeFigures`` and its parts) and those here have the same attributes,
so that a profiler need not know which it has. Unknown values are ``None``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

__all__ = [
    "MemoryFigures",
    "ReadMemory",
    "ReadSample",
    "ReadSamples",
    "ReadScope",
    "ReadTurnover",
    "Sample",
    "Samples",
    "ScopeFigures",
    "Turnover",
]


class MemoryFigures(Protocol):
    """The state of a device's memory at one moment."""

    @property
    def allocated_bytes(self) -> int | None: ...
    @property
    def active_bytes(self) -> int | None: ...
    @property
    def reserved_bytes(self) -> int | None: ...
    @property
    def most_allocated_bytes(self) -> int | None:
        """The peak in this process until then."""

    @property
    def most_reserved_bytes(self) -> int | None: ...


class Turnover(Protocol):
    """What was allocated and freed in a span of time."""

    @property
    def allocated_bytes(self) -> int: ...
    @property
    def freed_bytes(self) -> int: ...
    @property
    def allocations(self) -> int: ...
    @property
    def frees(self) -> int: ...


class ScopeFigures(Protocol):
    """What a scope measured."""

    @property
    def start_unix_ns(self) -> int: ...
    @property
    def duration_ns(self) -> int: ...
    @property
    def peak_after_ns(self) -> int:
        """From the start to the peak."""

    @property
    def before(self) -> MemoryFigures: ...
    @property
    def peak(self) -> MemoryFigures: ...
    @property
    def after(self) -> MemoryFigures: ...
    @property
    def turnover(self) -> Turnover | None: ...
    @property
    def own(self) -> Turnover | None:
        """Of the thread that opened the scope."""

    @property
    def uncounted(self) -> int:
        """Events whose size is not known."""

    @property
    def resident_before_bytes(self) -> int | None: ...
    @property
    def resident_after_bytes(self) -> int | None: ...


class Sample(Protocol):
    """The scope between two looks of a monitor, and the card at its end."""

    @property
    def figures(self) -> ScopeFigures: ...
    @property
    def card_used_bytes(self) -> int | None: ...
    @property
    def card_process_bytes(self) -> int | None: ...


class Samples(Protocol):
    """What a monitor saw since it was last asked."""

    @property
    def samples(self) -> Sequence[Sample]: ...
    @property
    def dropped(self) -> int:
        """Samples that did not fit."""


@dataclass(frozen=True)
class ReadMemory:
    """`MemoryFigures`, read from counters."""

    allocated_bytes: int | None
    active_bytes: int | None
    reserved_bytes: int | None
    most_allocated_bytes: int | None
    most_reserved_bytes: int | None


@dataclass(frozen=True)
class ReadTurnover:
    """`Turnover`, read from counters."""

    allocated_bytes: int
    freed_bytes: int
    allocations: int
    frees: int

    def since(self, earlier: ReadTurnover) -> ReadTurnover:
        """What happened since an earlier reading.

        >>> ReadTurnover(9, 5, 3, 2).since(ReadTurnover(4, 5, 1, 2))
        ReadTurnover(allocated_bytes=5, freed_bytes=0, allocations=2, frees=0)
        """
        return ReadTurnover(
            self.allocated_bytes - earlier.allocated_bytes,
            self.freed_bytes - earlier.freed_bytes,
            self.allocations - earlier.allocations,
            self.frees - earlier.frees,
        )


@dataclass(frozen=True)
class ReadScope:
    """`ScopeFigures`, from two readings of counters."""

    start_unix_ns: int
    duration_ns: int
    peak_after_ns: int
    before: MemoryFigures
    peak: MemoryFigures
    after: MemoryFigures
    turnover: Turnover | None = None
    own: Turnover | None = None
    uncounted: int = 0
    resident_before_bytes: int | None = None
    resident_after_bytes: int | None = None


@dataclass(frozen=True)
class ReadSample:
    """`Sample`, from counters, which do not know the card."""

    figures: ScopeFigures
    card_used_bytes: int | None = None
    card_process_bytes: int | None = None


@dataclass(frozen=True)
class ReadSamples:
    """`Samples`, from counters."""

    samples: Sequence[Sample]
    dropped: int
