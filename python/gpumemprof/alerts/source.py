"""DeviceSource: readings of one device, from the counters that profilers use too."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

from gpumemprof.alerts.reading import Reading
from gpumemprof.profile.figures import ReadSample, Sample
from gpumemprof.profile.metering import Meter, cpu_meter, cuda_meter
from gpumemprof.profile.monitoring import AnyScope, Monitor
from gpumemprof.profile.optional_math import highest
from gpumemprof.torch_calls import allocator, cards, devices

__all__ = ["DeviceSource"]

_LOOK_EVERY_S = 1.0


class DeviceSource:
    """Readings that miss nothing: peaks between two samples are counted as they happen."""

    def __init__(self, device: Any, watches_retries: bool) -> None:
        is_cpu = str(device) == "cpu" or (device is None and devices.why_no_cuda() is not None)
        self.device = devices.cpu_device(None) if is_cpu else devices.cuda_device(device)
        self.name = str(self.device)
        self._index = -1 if is_cpu else int(self.device.index)
        self._meter: Meter = cpu_meter() if is_cpu else cuda_meter(self._index)
        self.note = self._meter.note
        """Why figures are estimated; None if they are exact."""
        self.capacity = None if is_cpu else cards.card_total(self._index)
        self._watches_retries = watches_retries and not is_cpu
        self._retries_before = self._retries_now()
        self._monitor: Monitor | None = None
        self._interval: AnyScope | None = None
        self._used: int | None = None
        self._outside: int | None = None
        self._limit: int | None = None
        self._retries: int | None = None if is_cpu else 0
        self._next_look_s = 0.0
        self._has_nvml = False

    def start(self, interval_s: float) -> None:
        """Begin to sample."""
        card = cards.card_ids().get(self._index, "") if self._index >= 0 else ""
        self._monitor = self._meter.start_monitor(interval_s, False, card)

    def stop(self) -> None:
        """Take a last sample, and end; `readings` returns what is left."""
        if self._monitor is not None:
            self._monitor.stop()

    def close(self) -> None:
        """Stop counting."""
        self._monitor = None
        if self._interval is not None:
            self._interval.close()
            self._interval = None
        self._meter.stop()

    def forget(self) -> None:
        """In a forked child: the thread that samples is not there."""
        self._monitor = None

    def readings(self) -> Iterator[Reading]:
        """What was sampled since the last call."""
        monitor = self._monitor
        if monitor is None:
            return
        for sample in monitor.take().samples:
            yield self._reading(sample)

    def take_interval(self) -> Reading | None:
        """What happened since the last call, without a thread; None the first time."""
        if self._interval is None:
            self._interval = self._meter.open_scope(False)
            return None
        figures = self._interval.turn_over()
        if figures is None:  # Counting began anew, as in a forked child.
            self._interval = None
            return None
        return self._reading(ReadSample(figures))

    def _reading(self, sample: Sample) -> Reading:
        figures = sample.figures
        before, peak, after = figures.before, figures.peak, figures.after
        self._look_at_card(sample)
        has_pool = self._index >= 0  # Without one, its counters say what is allocated.
        reserved_peak = highest(
            highest(before.reserved_bytes, peak.reserved_bytes), after.reserved_bytes
        )
        # The pool may have been largest at another moment than when most was allocated.
        if reserved_peak is not None and after.most_reserved_bytes != before.most_reserved_bytes:
            reserved_peak = highest(reserved_peak, after.most_reserved_bytes)
        lows = [low for low in (before.allocated_bytes, after.allocated_bytes) if low is not None]
        end_ns = figures.start_unix_ns + figures.duration_ns
        return Reading(
            time_s=time.monotonic() - max(0.0, time.time() - end_ns / 1e9),
            unix_s=end_ns / 1e9,
            allocated=after.allocated_bytes,
            reserved=after.reserved_bytes if has_pool else None,
            allocated_peak=peak.allocated_bytes,
            allocated_low=min(lows) if lows else None,
            reserved_peak=reserved_peak if has_pool else None,
            reserved_at_peak=peak.reserved_bytes if has_pool else None,
            card_used=self._used,
            capacity=self.capacity,
            limit=self._limit,
            outside=self._outside,
            retries=self._retries,
        )

    def _look_at_card(self, sample: Sample) -> None:
        if self._index < 0:
            return
        reserved = sample.figures.after.reserved_bytes
        if sample.card_used_bytes is not None:
            self._has_nvml = True
            self._set_used(sample.card_used_bytes, reserved)
        now = time.monotonic()
        if now < self._next_look_s:
            return
        self._next_look_s = now + _LOOK_EVERY_S
        with contextlib.suppress(Exception):
            if not self._has_nvml:
                self._set_used(cards.card_memory(self._index)[0], reserved)
            self._limit = cards.limit_bytes(self._index)
            if self._watches_retries:
                self._retries = self._retries_now() - self._retries_before

    def _set_used(self, used: int, reserved: int | None) -> None:
        self._used = used
        self._outside = None if reserved is None else max(0, used - reserved)

    def _retries_now(self) -> int:
        if not self._watches_retries:
            return 0
        with contextlib.suppress(Exception):
            return allocator.retry_counts().get(self._index, 0)
        return 0
