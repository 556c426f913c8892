"""The figures of a scope, whatever their source: counted natively, or read from counters.

The native classes (``_core.ScopeFigures`` and its parts) and those here have the same attributes,
so that a profiler need not know which it has: a name such as `ScopeFigures` stands for either.
Unknown values are ``None``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Union

from gpumemprof import _core

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


MemoryFigures = Union[_core.MemoryFigures, ReadMemory]
Turnover = Union[_core.Turnover, ReadTurnover]
ScopeFigures = Union[_core.ScopeFigures, ReadScope]
Sample = Union[_core.Sample, ReadSample]
Samples = Union[_core.TakenSamples, ReadSamples]
