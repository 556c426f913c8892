"""ProfileResult: what one run of a function or a block of code did to a device's memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpumemprof.profile.figures import Turnover
from gpumemprof.profile.memory_state import LateSnapshot, MemorySnapshot
from gpumemprof.profile.optional_math import difference
from gpumemprof.profile.stacks import Allocation, ScopeRecording
from gpumemprof.read.recording import Recording

__all__ = ["OwnAllocations", "ProfileResult"]


@dataclass(frozen=True)
class OwnAllocations:
    """What the thread that opened a scope did itself; other threads are not included.

    >>> OwnAllocations(300, 100, 3, 1).memory_diff()
    200
    """

    memory_allocated: int
    memory_freed: int
    tensors_created: int
    tensors_deleted: int

    def memory_diff(self) -> int:
        """Bytes allocated minus bytes freed.

        >>> OwnAllocations(0, 0, 0, 0).memory_diff()
        0
        """
        return self.memory_allocated - self.memory_freed


class ProfileResult:
    """What one execution did: the state at both ends and at its peak, and the totals in between.

    Made by a profiler. If made by hand from two snapshots, gross bytes are at least the net change:

    >>> before, after = MemorySnapshot(allocated_memory=10), MemorySnapshot(allocated_memory=14)
    >>> result = ProfileResult("f", 0.5, before, after, after)
    >>> result.memory_diff(), result.peak_memory_usage(), result.peak_above_start()
    (4, 14, 4)
    """

    threads = "all"
    """A scope counts what the device did while it was open, whichever thread asked for it."""

    def __init__(
        self,
        function_name: str,
        execution_time: float,
        memory_before: MemorySnapshot | LateSnapshot,
        memory_after: MemorySnapshot | LateSnapshot,
        memory_peak: MemorySnapshot | LateSnapshot,
        memory_allocated: int | None = None,
        memory_freed: int | None = None,
        tensors_created: int | None = None,
        tensors_deleted: int | None = None,
        call_count: int = 1,
        *,
        error: str | None = None,
        own: OwnAllocations | Turnover | None = None,
        provenance: str = "measured",
        note: str | None = None,
        recording: ScopeRecording | None = None,
    ) -> None:
        """Made by a profiler; omitted values are derived from the snapshots."""
        self.function_name = function_name
        self.execution_time = execution_time
        """Seconds by the monotonic clock, the device's work included where it was waited for."""
        # Snapshots are built on demand: most are never used, and a scope must cost little.
        self._before = memory_before
        self._after = memory_after
        self._peak = memory_peak
        if memory_allocated is None or memory_freed is None:
            change = difference(
                self.memory_after.allocated_memory, self.memory_before.allocated_memory
            )
            if memory_allocated is None and change is not None:
                memory_allocated = max(0, change)
            if memory_freed is None:
                memory_freed = difference(memory_allocated, change)
        self.memory_allocated = memory_allocated
        """All bytes allocated while it ran, with those freed again; ``None`` where not known."""
        self.memory_freed = memory_freed
        """All bytes freed while it ran."""
        self.tensors_created = tensors_created
        """Storages allocated on the device; ``None`` where they are not counted."""
        self.tensors_deleted = tensors_deleted
        self.call_count = call_count
        self.error = error
        """The exception that ended it, as text; ``None`` where it returned."""
        self._own = own
        self.provenance = provenance
        """``measured``: from the allocator's events. ``estimated``: from torch's counters or the
        system's, where the peak is a lower bound; `note` says why."""
        self.note = note
        self._recording = recording

    @property
    def memory_before(self) -> MemorySnapshot:
        """The state when the execution began.

        >>> before, now = MemorySnapshot(allocated_memory=5), MemorySnapshot(allocated_memory=9)
        >>> ProfileResult("f", 0.0, before, now, now).memory_before.allocated_memory
        5
        """
        if isinstance(self._before, LateSnapshot):
            self._before = self._before.make()
        return self._before

    @property
    def memory_after(self) -> MemorySnapshot:
        """The state when the execution ended.

        >>> before, now = MemorySnapshot(allocated_memory=5), MemorySnapshot(allocated_memory=9)
        >>> ProfileResult("f", 0.0, before, now, now).memory_after.allocated_memory
        9
        """
        if isinstance(self._after, LateSnapshot):
            self._after = self._after.make()
        return self._after

    @property
    def memory_peak(self) -> MemorySnapshot:
        """The state at the moment with the most allocated bytes, with its timestamp.

        >>> now, peak = MemorySnapshot(allocated_memory=5), MemorySnapshot(allocated_memory=9)
        >>> ProfileResult("f", 0.0, now, now, peak).memory_peak.allocated_memory
        9
        """
        if isinstance(self._peak, LateSnapshot):
            self._peak = self._peak.make()
        return self._peak

    @property
    def own(self) -> OwnAllocations | None:
        """What the opening thread did itself; ``None`` if unknown.

        >>> now = MemorySnapshot(allocated_memory=5)
        >>> ProfileResult("f", 0.0, now, now, now, own=OwnAllocations(9, 2, 3, 1)).own.memory_diff()
        7
        """
        own = self._own
        if own is not None and not isinstance(own, OwnAllocations):
            own = OwnAllocations(own.allocated_bytes, own.freed_bytes, own.allocations, own.frees)
            self._own = own
        return own

    def memory_diff(self) -> int | None:
        """Return the net change in bytes: allocated minus freed; ``None`` if unknown.

        >>> now = MemorySnapshot(allocated_memory=5)
        >>> ProfileResult("f", 0.0, now, now, now, 100, 100).memory_diff()
        0
        """
        return difference(self.memory_allocated, self.memory_freed)

    def peak_memory_usage(self) -> int | None:
        """Return the most bytes allocated on the device during this execution; ``None`` if unknown.

        >>> now, peak = MemorySnapshot(allocated_memory=5), MemorySnapshot(allocated_memory=9)
        >>> ProfileResult("f", 0.0, now, now, peak).peak_memory_usage()
        9
        """
        peak = self._peak
        if isinstance(peak, LateSnapshot):
            return peak.figures.allocated_bytes
        return peak.allocated_memory

    def peak_above_start(self) -> int | None:
        """Return the peak minus what was allocated when the execution began; ``None`` if unknown.

        >>> now, peak = MemorySnapshot(allocated_memory=5), MemorySnapshot(allocated_memory=9)
        >>> ProfileResult("f", 0.0, now, now, peak).peak_above_start()
        4
        """
        return difference(self.memory_peak.allocated_memory, self.memory_before.allocated_memory)

    @property
    def allocations(self) -> list[Allocation] | None:
        """Every allocation made, with its stack; ``None`` without ``collect_stack_traces``.

        Limited to the newest hundred thousand.

        >>> now = MemorySnapshot()
        >>> print(ProfileResult("f", 0.0, now, now, now).allocations)
        None
        """
        return None if self._recording is None else self._recording.allocations()

    @property
    def recording(self) -> Recording | None:
        """The scope as a `Recording`, to report on and query; ``None`` if no stacks were collected.

        >>> now = MemorySnapshot()
        >>> print(ProfileResult("f", 0.0, now, now, now).recording)
        None
        """
        return None if self._recording is None else self._recording.load()

    def to_dict(self) -> dict[str, Any]:
        """Return everything as a dictionary for JSON.

        >>> now = MemorySnapshot(allocated_memory=5)
        >>> ProfileResult("f", 0.25, now, now, now).to_dict()["peak_memory_usage"]
        5
        """
        own = self.own
        return {
            "function_name": self.function_name,
            "execution_time": self.execution_time,
            "memory_before": self.memory_before.to_dict(),
            "memory_after": self.memory_after.to_dict(),
            "memory_peak": self.memory_peak.to_dict(),
            "memory_allocated": self.memory_allocated,
            "memory_freed": self.memory_freed,
            "memory_diff": self.memory_diff(),
            "peak_memory_usage": self.peak_memory_usage(),
            "peak_above_start": self.peak_above_start(),
            "tensors_created": self.tensors_created,
            "tensors_deleted": self.tensors_deleted,
            "call_count": self.call_count,
            "threads": self.threads,
            "own": None if own is None else dict(vars(own)),
            "error": self.error,
            "provenance": self.provenance,
            "note": self.note,
        }

    def __getstate__(self) -> dict[str, Any]:
        """For pickles and copies: native figures become snapshots, which have no such limits."""
        _ = self.memory_before, self.memory_after, self.memory_peak, self.own
        return dict(vars(self))

    def __repr__(self) -> str:
        """The name, the peak and the net change."""
        peak, change = self.peak_memory_usage(), self.memory_diff()
        peak_text = "unknown" if peak is None else f"{peak} B"
        change_text = "unknown" if change is None else f"{change:+d} B"
        return (
            f"<ProfileResult {self.function_name!r}: peak {peak_text}, "
            f"change {change_text}, {self.execution_time:.6f} s>"
        )

    def __str__(self) -> str:
        """A small human-readable table."""
        from gpumemprof.profile.text import result_text

        return result_text(self)

    def _repr_html_(self) -> str:
        from gpumemprof.profile.html import result_html

        return result_html(self)
