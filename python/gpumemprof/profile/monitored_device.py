"""The memory of one device: its state now, and the snapshots that monitoring takes of it."""

from __future__ import annotations

import math
import os
import threading
import time
import warnings
import weakref
from collections.abc import Iterator
from typing import Any, NamedTuple

from gpumemprof import _core
from gpumemprof.errors import RecordingWarning, UsageError
from gpumemprof.profile.figures import MemoryFigures, Sample
from gpumemprof.profile.memory_state import LateSnapshot, LateStack, MemorySnapshot
from gpumemprof.profile.metering import Meter
from gpumemprof.profile.monitoring import Monitor
from gpumemprof.profile.optional_math import difference, highest

__all__ = ["NO_CARD", "Card", "MonitoredDevice", "outside_of_pool"]

_MOST_SNAPSHOTS = 100_000
_SHORTEST_INTERVAL_S = 1e-4  # a shorter one would keep the monitor busy doing nothing else
_LONGEST_INTERVAL_S = 1e9


class Card(NamedTuple):
    """Bytes of the whole card, as the driver reports them."""

    used_bytes: int | None
    total_bytes: int | None


NO_CARD = Card(None, None)

_devices: weakref.WeakSet[MonitoredDevice] = weakref.WeakSet()


def _forget_all_threads() -> None:
    for device in list(_devices):
        device._forget_threads()


os.register_at_fork(after_in_child=_forget_all_threads)


class MonitoredDevice:
    """What a profiler knows about its device outside of scopes."""

    device: Any
    """The ``torch.device`` that is profiled."""
    track_cpu_memory: bool

    def __init__(self, device: Any, meter: Meter, track_cpu_memory: bool) -> None:
        """Use `GPUMemoryProfiler` or `CPUMemoryProfiler`."""
        self.device = device
        self.track_cpu_memory = track_cpu_memory
        self._device_id = -1 if device.type == "cpu" else int(device.index)
        self._meter = meter
        self._lock = threading.Lock()
        self._monitor: Monitor | None = None
        self._snapshots: list[MemorySnapshot] = []
        self.snapshots_dropped = 0
        """How many of the oldest snapshots were dropped because there were too many."""
        _devices.add(self)

    # What differs between kinds of memory.

    _card_total: int | None = None

    def _card_id(self) -> str:
        """The card's id, as NVML names it; empty if there is none."""
        return ""

    def _card_and_outside(self, reserved: int | None) -> tuple[Card, int | None]:
        """The card without calling CUDA, and this process's bytes outside the pool."""
        return NO_CARD, None

    def _on_seen(self, allocated: int | None) -> None:
        """Monitoring saw this many bytes allocated."""

    def _late_snapshot(
        self,
        figures: MemoryFigures,
        time_ns: int,
        resident: int | None,
        operation: str,
        stack: LateStack = None,
        card: Card = NO_CARD,
        outside: int | None = None,
    ) -> LateSnapshot:
        return LateSnapshot(
            time_ns,
            figures,
            resident if self.track_cpu_memory else 0,
            self._device_id,
            operation,
            stack,
            card.used_bytes,
            card.total_bytes,
            outside,
        )

    def _look(self, operation: str) -> MemorySnapshot:
        """The current state, with everything that is known."""
        figures = self._meter.now()
        resident = _core.resident_bytes() if self.track_cpu_memory else None
        card, outside = self._card_and_outside(figures.reserved_bytes)
        late = self._late_snapshot(
            figures, time.time_ns(), resident, operation, card=card, outside=outside
        )
        return late.make()

    def start_monitoring(self, interval: float = 0.1) -> None:
        """Take a snapshot of the device every ``interval`` seconds, in a background thread.

        Peaks between snapshots are exact and kept: no spike is missed, however short.

        >>> profiler.start_monitoring(interval=0.01)  # doctest: +SKIP
        >>> train_epoch(model, batches)  # doctest: +SKIP
        >>> profiler.stop_monitoring()  # doctest: +SKIP
        >>> max(s.allocated_memory for s in profiler.snapshots)  # doctest: +SKIP

        Args:
            interval: seconds, more than 0.

        Raises:
            UsageError: the interval is not a positive, finite number (also a ``ValueError``).
        """
        if (
            isinstance(interval, bool)
            or not isinstance(interval, (int, float))
            or not 0 < interval < math.inf
        ):
            raise UsageError(
                f"a monitoring interval is a positive number of seconds, not {interval!r}", "usage"
            )
        with self._lock:
            if self._monitor is not None:
                warnings.warn(
                    "monitoring is already on and continues unchanged",
                    RecordingWarning,
                    stacklevel=2,
                )
                return
            self._add_snapshots([self._look("monitoring")])
            seconds = min(max(float(interval), _SHORTEST_INTERVAL_S), _LONGEST_INTERVAL_S)
            try:
                monitor = self._meter.start_monitor(seconds, self.track_cpu_memory, self._card_id())
            except RuntimeError as error:  # There may be too many threads.
                warnings.warn(
                    f"monitoring stays off: no thread could be started: {error}",
                    RecordingWarning,
                    stacklevel=2,
                )
                return
            self._monitor = monitor
            self._monitor_finalizer = weakref.finalize(self, self._monitor.stop)

    def stop_monitoring(self) -> None:
        """Stop monitoring, with a last snapshot; does nothing if monitoring is off.

        >>> profiler.stop_monitoring()  # doctest: +SKIP
        """
        with self._lock:
            monitor, self._monitor = self._monitor, None
            if monitor is not None:
                self._monitor_finalizer()  # stops it
                self._collect(monitor)

    @property
    def snapshots(self) -> list[MemorySnapshot]:
        """The snapshots that monitoring has taken, oldest first; bounded, see `snapshots_dropped`.

        >>> len(profiler.snapshots)  # doctest: +SKIP
        """
        with self._lock:
            self._collect(self._monitor)
            return self._snapshots

    @property
    def monitoring_active(self) -> bool:
        """Whether the device is being monitored.

        >>> profiler.monitoring_active  # doctest: +SKIP
        False
        """
        return self._monitor is not None

    def _collect(self, monitor: Monitor | None) -> None:
        """Turn what the monitor has seen so far into snapshots; call with the lock held."""
        if monitor is None:
            return
        taken = monitor.take()
        self.snapshots_dropped += taken.dropped
        for sample in taken.samples:
            self._add_snapshots([late.make() for late in self._snapshots_of(sample)])

    def _snapshots_of(self, sample: Sample) -> Iterator[LateSnapshot]:
        figures = sample.figures
        start, peak, after = figures.start_unix_ns, figures.peak, figures.after
        ends = highest(figures.before.allocated_bytes, after.allocated_bytes)
        if ends is not None and highest(peak.allocated_bytes, ends) != ends:
            at = start + figures.peak_after_ns
            yield self._late_snapshot(peak, at, None, "peak between samples")
        used = sample.card_used_bytes
        yield self._late_snapshot(
            after,
            start + figures.duration_ns,
            figures.resident_after_bytes,
            "monitoring",
            card=NO_CARD if used is None else Card(used, self._card_total),
            outside=outside_of_pool(sample.card_process_bytes, after.reserved_bytes),
        )

    def _add_snapshots(self, seen: list[MemorySnapshot]) -> None:
        self._snapshots.extend(seen)
        for snapshot in seen:
            self._on_seen(snapshot.allocated_memory)
        if len(self._snapshots) > _MOST_SNAPSHOTS:
            dropped = _MOST_SNAPSHOTS // 10
            del self._snapshots[:dropped]
            self.snapshots_dropped += dropped

    def _forget_threads(self) -> None:
        """In a forked child: none of our threads survive, and none holds the lock."""
        self._lock = threading.Lock()
        if self._monitor is not None:
            self._monitor_finalizer.detach()
            self._monitor = None


def outside_of_pool(process: int | None, reserved: int | None) -> int | None:
    """The bytes a process holds on the card outside its pool."""
    outside = difference(process, reserved)
    return None if outside is None else max(0, outside)
