"""Meters: the sources of a profiler's figures, one class for each source.

A meter opens scopes; what a scope measured has the same form whatever the source (`figures`).
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Protocol

from gpumemprof import _core
from gpumemprof.errors import Error, UsageError
from gpumemprof.profile.optional_math import highest
from gpumemprof.torch_calls import allocator, readiness

# Where events are counted natively, as nearly everywhere, these are not needed: a session of tests
# is short enough to notice.
if TYPE_CHECKING:
    from gpumemprof.profile.figures import MemoryFigures, ReadMemory, ReadScope, ReadTurnover
    from gpumemprof.profile.monitoring import AnyScope, Monitor

__all__ = ["CounterMeter", "Meter", "NativeMeter", "ResidentMeter", "cpu_meter", "cuda_meter"]

_MOST_TRIES = 5


class Meter(Protocol):
    provenance: str
    note: str | None

    def open_scope(self, with_resident: bool) -> AnyScope: ...
    def start_monitor(self, interval_s: float, with_resident: bool, card: str) -> Monitor: ...
    def now(self) -> MemoryFigures: ...
    def check(self) -> str | None: ...
    def stop(self) -> None: ...


class NativeMeter:
    """Counts the allocator's own events in native code as they happen: exact."""

    provenance = "measured"
    note: str | None = None

    def __init__(self, slot: int, follows_completions: bool = True) -> None:
        self.slot = slot
        # False if others are already counting: the state may be known then.
        self.is_new = _core.counting_start(slot, follows_completions)
        self._is_counting = True

    def open_scope(self, with_resident: bool) -> AnyScope:
        return _core.open_scope(self.slot, with_resident)

    def start_monitor(self, interval_s: float, with_resident: bool, card: str) -> Monitor:
        return _core.start_sampler(self.slot, round(interval_s * 1e9), with_resident, card)

    def now(self) -> MemoryFigures:
        return _core.counting_now(self.slot)

    def check(self) -> str | None:
        """Why the figures cannot be trusted; CPU memory has no second source to compare with."""
        return None

    def stop(self) -> None:
        if self._is_counting:
            self._is_counting = False
            _core.counting_stop(self.slot)


class NativeCudaMeter(NativeMeter):
    """The same for CUDA, starting from torch's counters and checked against them."""

    def __init__(self, index: int, follows_completions: bool) -> None:
        super().__init__(index, follows_completions)
        self._scopes = 0
        self._next_check = 1
        self._is_confirmed = False
        try:
            self._settle()
            # Ours first: an event between the two must not look like a block we missed.
            self._start = _core.counting_turnover(index)
            self._start_gross = int(allocator.counters(index)["allocation"]["all"]["allocated"])
        except BaseException:
            self.stop()
            raise

    def _settle(self) -> None:
        """Start from torch's state; retry if something happened in between."""
        for _ in range(_MOST_TRIES):
            version = _core.counting_version(self.slot)
            stats = allocator.counters(self.slot)
            allocated, reserved = stats["allocated_bytes"]["all"], stats["reserved_bytes"]["all"]
            pending: list[tuple[int, int]] = []
            if stats["active_bytes"]["all"]["current"] != allocated["current"]:
                pending = allocator.pending_blocks(self.slot)
            if not self.is_new and all(_core.counting_knows(self.slot)):
                return
            if _core.counting_settle(
                self.slot,
                version,
                allocated["current"],
                reserved["current"],
                allocated["peak"],
                reserved["peak"],
                pending,
            ):
                return
        if not _core.counting_knows(self.slot)[0]:
            raise UsageError("the allocator was never idle long enough to start counting", "usage")

    def check(self) -> str | None:
        """Compare with torch's counters until they agree on events seen; then stop comparing."""
        if self._is_confirmed:
            return None
        self._scopes += 1
        seen = _core.counting_turnover(self.slot)
        if seen == self._start and self._scopes < self._next_check:
            return None  # nothing to compare; checked less and less often
        self._next_check = self._scopes * 2
        stats, allocated = allocator.counters(self.slot), self.now().allocated_bytes
        if _core.counting_turnover(self.slot) != seen:
            return None  # another thread is active; the next scope will show
        if seen == self._start:
            handed_out = int(stats["allocation"]["all"]["allocated"]) > self._start_gross
            return "torch's allocator does not report its blocks" if handed_out else None
        if allocated != stats["allocated_bytes"]["all"]["current"]:
            return "torch's reports do not agree with its counters"
        self._is_confirmed = True
        return None


class _CounterScope:
    """Two readings of a meter's counters, where the source does not report individual events."""

    def __init__(self, meter: _ReadMeter, with_resident: bool) -> None:
        self._meter = meter
        self._with_resident = with_resident
        self._start()

    def _start(self) -> None:
        self._resident = _core.resident_bytes() if self._with_resident else None
        self._before, self._turnover = self._meter.read()
        self._unix_ns, self._monotonic_ns = time.time_ns(), time.monotonic_ns()

    def close(self) -> ReadScope:
        from gpumemprof.profile.figures import ReadScope

        duration = time.monotonic_ns() - self._monotonic_ns
        after, turnover = self._meter.read()
        resident = _core.resident_bytes() if self._with_resident else None
        peak = _peak_between(self._before, after)
        is_at_start = peak.allocated_bytes == self._before.allocated_bytes
        return ReadScope(
            self._unix_ns,
            duration,
            0 if is_at_start else duration,
            self._before,
            peak,
            after,
            None if turnover is None or self._turnover is None else turnover.since(self._turnover),
            resident_before_bytes=self._resident,
            resident_after_bytes=resident,
        )

    def turn_over(self) -> ReadScope:
        figures = self.close()
        self._start()
        return figures


def _peak_between(before: ReadMemory, after: ReadMemory) -> ReadMemory:
    """The state at the peak, as far as two readings show it."""
    from gpumemprof.profile.figures import ReadMemory

    allocated = highest(before.allocated_bytes, after.allocated_bytes)
    most = after.most_allocated_bytes
    earlier = before.most_allocated_bytes
    if most is not None and (earlier is None or most > earlier):
        allocated = most  # torch's peak rose during the scope: this is the peak
    for reading in (before, after):
        if reading.allocated_bytes == allocated:
            return reading
    return ReadMemory(allocated, None, after.most_reserved_bytes, most, after.most_reserved_bytes)


class _ReadMeter:
    """A meter that can only be read from time to time; its figures are estimates."""

    provenance = "estimated"
    note: str | None

    def read(self) -> tuple[ReadMemory, ReadTurnover | None]:
        """The state and the turnover so far."""
        raise NotImplementedError

    def open_scope(self, with_resident: bool) -> AnyScope:
        return _CounterScope(self, with_resident)

    def start_monitor(self, interval_s: float, with_resident: bool, card: str) -> Monitor:
        from gpumemprof.profile.monitoring import CounterMonitor

        return CounterMonitor(self.open_scope(with_resident), interval_s)

    def now(self) -> MemoryFigures:
        return self.read()[0]

    def check(self) -> str | None:
        return None

    def stop(self) -> None:
        pass


class CounterMeter(_ReadMeter):
    """torch's counters, read at both ends: gross bytes are exact, the peak is a lower bound.

    The turnover is unknown if the allocator does not count it.
    """

    def __init__(self, index: int, reason: str, has_turnover: bool = True) -> None:
        self.index = index
        self._has_turnover = has_turnover
        self.note = (
            f"from torch's counters, where the peak is a lower bound unless it is torch's own: "
            f"{reason}"
        )

    def read(self) -> tuple[ReadMemory, ReadTurnover | None]:
        from gpumemprof.profile.figures import ReadMemory, ReadTurnover

        stats = allocator.counters(self.index)
        bytes_, blocks = stats["allocated_bytes"]["all"], stats["allocation"]["all"]
        reserved = stats["reserved_bytes"]["all"]
        state = ReadMemory(
            bytes_["current"],
            stats["active_bytes"]["all"]["current"],
            reserved["current"],
            bytes_["peak"],
            reserved["peak"],
        )
        if not self._has_turnover:
            return state, None
        return state, ReadTurnover(
            bytes_["allocated"],
            bytes_["freed"],
            blocks["allocated"],
            blocks["freed"],
        )


class ResidentMeter(_ReadMeter):
    """This process's resident memory: the fallback where CPU tensors cannot be followed."""

    def __init__(self, reason: str) -> None:
        self.note = f"from the process's resident memory: {reason}"
        self._most: int | None = None

    def read(self) -> tuple[ReadMemory, ReadTurnover | None]:
        from gpumemprof.profile.figures import ReadMemory

        # Unknown if the system does not report it, as when /proc is hidden from the process.
        resident = _core.resident_bytes()
        self._most = highest(self._most, resident)
        return ReadMemory(resident, resident, resident, self._most, self._most), None


def cpu_meter() -> Meter:
    """The best available meter for CPU tensors."""
    try:
        _core.capture_attach_cpu()
        return NativeMeter(_core.CPU_SLOT)
    except Error as error:
        return ResidentMeter(error.message)


def cuda_meter(index: int) -> Meter:
    """The best available meter for a CUDA device; CUDA must be initialised."""
    backend = allocator.backend()
    if backend != "native":
        # Such an allocator counts the memory in use, and nothing else.
        reason = f"torch uses the {backend} allocator, which reports no events"
        return CounterMeter(index, reason, has_turnover=False)
    if os.environ.get("PYTORCH_NO_CUDA_MEMORY_CACHING"):
        reason = "PYTORCH_NO_CUDA_MEMORY_CACHING is set, so torch counts nothing"
        return CounterMeter(index, reason, has_turnover=False)
    try:
        return NativeCudaMeter(index, _core.counting_attach_cuda(*readiness.version()))
    except Error as error:
        return CounterMeter(index, error.message)
