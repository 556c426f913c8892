"""MemoryTracker: follows one device's memory, raises alerts, keeps statistics and a timeline."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import threading
import time
import warnings
import weakref
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

from gpumemprof import _core
from gpumemprof.alerts import sinks
from gpumemprof.alerts.condition import Condition, parse
from gpumemprof.alerts.growth import GrowthMeter
from gpumemprof.alerts.reading import Reading
from gpumemprof.alerts.rule import Alert, EventRule, Rule
from gpumemprof.alerts.sinks import BackgroundSink, Sink
from gpumemprof.alerts.source import DeviceSource
from gpumemprof.alerts.timeline import Point, Timeline
from gpumemprof.errors import RecordingWarning, UsageError
from gpumemprof.failure import spot
from gpumemprof.profile.optional_math import highest
from gpumemprof.torch_calls import readiness

__all__ = ["MemoryTracker"]

_MOST_ALERTS = 1000
_SHORTEST_LOOK_S = 0.05

_trackers: weakref.WeakSet[MemoryTracker] = weakref.WeakSet()


def _forget_threads() -> None:
    for tracker in list(_trackers):
        tracker._forget()


os.register_at_fork(after_in_child=_forget_threads)


class MemoryTracker:
    """Follows the memory of a device until stopped.

    ::

        with gpumemprof.MemoryTracker("cuda:0", alerts=["headroom<5%"], webhook=url) as tracker:
            train()
        print(tracker.statistics()["peak_allocated"], tracker.alerts)

    An alert fires once each time its condition is crossed, even if only for a moment between two
    samples: peaks come from the allocator's own events. It fires again only after the value has
    come back, and not within ``min_alert_interval`` seconds. Alerts are also written into the
    recordings that are open.

    Args:
        device: an index, ``"cuda:0"``, ``"cpu"``, a ``torch.device``; None for the current CUDA
            device, or for CPU tensors if there is no CUDA.
        interval: seconds between two samples.
        alerts: conditions, such as ``"reserved>70GiB"``; see `alert`.
        min_alert_interval: seconds between two alerts of one condition.
        callback: called with each `Alert`, in the tracker's thread.
        warn: issue Python warnings.
        logger: log warnings, to a logger or to one of this name.
        webhook: an address that gets each alert as JSON, by HTTP POST.
        command: a command that is run for each alert, with the alert as JSON on its input.
        timeline_points: how many points the timeline keeps; neighbours are joined with their peaks.

    Raises:
        UsageError: a condition or the device makes no sense (also a ``ValueError``).
    """

    def __init__(
        self,
        device: Any = None,
        *,
        interval: float = 0.1,
        alerts: str | Iterable[str] = (),
        min_alert_interval: float = 60.0,
        callback: Sink | None = None,
        warn: bool = False,
        logger: str | logging.Logger | None = None,
        webhook: str | None = None,
        command: str | Sequence[str] | None = None,
        timeline_points: int = 4096,
    ) -> None:
        """Attach to the device; `start` begins to follow it."""
        if not isinstance(interval, (int, float)) or not 0 < interval < math.inf:
            raise UsageError(
                f"a sampling interval is a positive number of seconds, not {interval!r}", "usage"
            )
        given = [alerts] if isinstance(alerts, str) else list(alerts)
        conditions = [parse(text) for text in given]
        self._device = device
        self._interval_s = float(interval)
        self._min_alert_interval_s = float(min_alert_interval)
        self._sinks: list[Sink] = []
        self._background: list[BackgroundSink] = []
        self._add_sinks(callback, warn, logger, webhook, command)
        self._lock = threading.Lock()
        self._source: DeviceSource | None = None
        self._thread: threading.Thread | None = None
        self._stops = threading.Event()
        self._conditions: list[Condition] = []
        self._rules: list[Rule] = []
        self._event_rules: list[EventRule] = []
        self._callbacks: dict[int, Sink] = {}
        self._alerts: deque[Alert] = deque(maxlen=_MOST_ALERTS)
        self._timeline = Timeline(timeline_points)
        self._growth = GrowthMeter()
        self._figures = _Figures()
        self.device = "cpu" if str(device) == "cpu" else device
        """The device, once tracking has begun as ``cuda:0`` or ``cpu``."""
        for condition in conditions:
            self._add(condition)
            if str(device) == "cpu":
                _check(condition, None, "cpu")
        _trackers.add(self)

    def _add_sinks(
        self,
        callback: Sink | None,
        warn: bool,
        logger: str | logging.Logger | None,
        webhook: str | None,
        command: str | Sequence[str] | None,
    ) -> None:
        if callback is not None:
            self._sinks.append(callback)
        if warn:
            self._sinks.append(sinks.warnings_sink)
        if logger is not None:
            self._sinks.append(sinks.logging_sink(logger))
        if webhook is not None:
            self._background.append(
                BackgroundSink(sinks.shown_address(webhook), sinks.webhook_sink(webhook))
            )
        if command is not None:
            self._background.append(
                BackgroundSink(f"the command {command!r}", sinks.command_sink(command))
            )

    def alert(self, condition: str, callback: Sink | None = None) -> None:
        """Add a condition; ``callback`` is called for this one alone.

        A metric (``allocated``, ``reserved``, ``used``, ``headroom``, ``growth``,
        ``fragmentation``, ``retries``), a comparison and a value with its unit; or an event,
        ``out_of_memory`` or ``exception``.

        >>> tracker.alert("growth > 100 MiB/min", print)  # doctest: +SKIP

        Raises:
            UsageError: it is not a condition, or cannot be decided on this device.
        """
        parsed = parse(condition)
        with self._lock:
            self._add(parsed)
            if callback is not None:
                self._callbacks[id(parsed)] = callback
            if self._source is not None and not parsed.is_event:
                self._add_rule(parsed, self._source)

    def _add(self, condition: Condition) -> None:
        if condition.is_event:
            self._event_rules.append(EventRule(condition, self._min_alert_interval_s))
        else:
            self._conditions.append(condition)

    def _add_rule(self, condition: Condition, source: DeviceSource) -> None:
        _check(condition, source.capacity, source.name)
        self._rules.append(Rule(condition, source.name, self._min_alert_interval_s))

    def start(self) -> MemoryTracker:
        """Begin to follow the device; does nothing if that has begun.

        >>> tracker.start()  # doctest: +SKIP
        """
        self._listen()
        with self._lock:
            if self._thread is not None:
                return self
            watches_retries = any(one.metric == "retries" for one in self._conditions)
            source = DeviceSource(self._device, watches_retries)
            try:
                self._rules.clear()
                for condition in self._conditions:
                    self._add_rule(condition, source)
            except BaseException:
                source.close()
                raise
            self.device = source.name
            self._source = source
            self._stops.clear()
            thread = threading.Thread(target=self._run, name="gpumemprof-tracker", daemon=True)
            try:
                source.start(self._interval_s)
                thread.start()
            except RuntimeError as error:  # There may be too many threads.
                source.close()
                self._source = None
                warnings.warn(
                    f"tracking stays off: no thread could be started: {error}",
                    RecordingWarning,
                    stacklevel=2,
                )
                return self
            self._thread = thread
        return self

    def _listen(self) -> None:
        """Raise alerts for events, without following the device; `stop` ends it."""
        if self._on_event not in spot.listeners:
            spot.listeners.append(self._on_event)
            readiness.when_imported(spot.watch)

    def stop(self) -> None:
        """Stop following the device, after a last look; does nothing if it is not followed.

        >>> tracker.stop()  # doctest: +SKIP
        """
        self._stop_following()
        with contextlib.suppress(ValueError):
            spot.listeners.remove(self._on_event)
        for sink in self._background:
            sink.close()

    def _stop_following(self) -> None:
        with self._lock:
            thread, self._thread = self._thread, None
            source = self._source
        if thread is None or source is None:
            return
        self._stops.set()
        if thread is not threading.current_thread():
            thread.join()
        source.stop()
        self._look(source)
        with self._lock:
            self._source = None
        source.close()

    def __enter__(self) -> MemoryTracker:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def is_tracking(self) -> bool:
        """Whether the device is being followed.

        >>> tracker.is_tracking  # doctest: +SKIP
        True
        """
        return self._thread is not None

    @property
    def alerts(self) -> list[Alert]:
        """The alerts so far, oldest first; the newest 1,000.

        >>> [str(alert) for alert in tracker.alerts]  # doctest: +SKIP
        ['headroom of cuda:0 is 3.8 % (headroom<5%)']
        """
        return list(self._alerts)

    @property
    def timeline(self) -> list[Point]:
        """Memory over time: each point has the peaks of its stretch of time.

        >>> max(point.allocated_max for point in tracker.timeline)  # doctest: +SKIP
        """
        with self._lock:
            return self._timeline.points()

    def statistics(self) -> dict[str, Any]:
        """What was seen, in bytes and seconds; None for what is unknown.

        >>> tracker.statistics()["peak_allocated"]  # doctest: +SKIP
        """
        with self._lock:
            return {
                "device": str(self.device),
                **self._figures.to_dict(),
                "growth_per_minute": self._growth.per_minute(),
                "alerts": self._figures.alerts,
            }

    def _run(self) -> None:
        wait = max(self._interval_s, _SHORTEST_LOOK_S)
        while not self._stops.wait(wait):
            source = self._source
            if source is None:
                return
            with contextlib.suppress(Exception):  # The program must not suffer from it.
                self._look(source)

    def _look(self, source: DeviceSource) -> None:
        for reading in source.readings():
            self._observe(reading)

    def _observe(self, reading: Reading) -> None:
        """Take in one reading, and raise what it raises."""
        with self._lock:
            self._timeline.add(reading)
            self._growth.add(reading.time_s, reading.allocated_low)
            self._figures.add(reading)
            growth = self._growth.per_minute()
            raised = [(rule, rule.look(reading, growth)) for rule in self._rules]
        for rule, alert in raised:
            if alert is not None:
                self._raise(alert, self._callbacks.get(id(rule.condition)))

    def _on_event(self, event: spot.Event) -> None:
        for rule in self._event_rules:
            alert = rule.happened(event, time.monotonic())
            if alert is not None:
                self._raise(alert, self._callbacks.get(id(rule.condition)))

    def _raise(self, alert: Alert, own: Sink | None) -> None:
        self._alerts.append(alert)
        self._figures.alerts += 1
        with contextlib.suppress(Exception):
            if _core.capture_is_recording():
                name = f"alert: {alert.message}"
                _core.capture_mark(name, True)
                _core.capture_mark(name, False)
        targets: list[Sink] = [*self._sinks, *self._background]
        if own is not None:
            targets.insert(0, own)
        for sink in targets:
            _pass_on(alert, sink)

    def _forget(self) -> None:
        """In a forked child: the threads are the parent's."""
        self._lock = threading.Lock()
        self._thread = None
        with contextlib.suppress(ValueError):
            spot.listeners.remove(self._on_event)
        if self._source is not None:
            self._source.forget()
            self._source = None


def _pass_on(alert: Alert, sink: Sink) -> None:
    try:
        sink(alert)
    except Exception as error:
        with contextlib.suppress(Exception):  # warnings may be errors in this program
            warnings.warn(f"an alert's callback failed: {error!r}", RecordingWarning, stacklevel=2)


def _check(condition: Condition, capacity: int | None, device: str) -> None:
    if capacity is not None:
        return
    if condition.needs_card:
        raise UsageError(
            f"'{condition.text}' cannot be decided on {device}: the memory of the whole device is "
            "not known there; give a size, such as allocated>4GiB",
            "usage",
        )
    if condition.metric in ("reserved", "fragmentation", "retries") and device == "cpu":
        raise UsageError(
            f"'{condition.text}' cannot be decided: CPU tensors have no pool; give a size of what "
            "is allocated, such as allocated>4GiB",
            "usage",
        )


class _Figures:
    """Extremes and means."""

    def __init__(self) -> None:
        self.alerts = 0
        self._samples = 0
        self._first_s = self._last_s = 0.0
        self._peak_allocated: int | None = None
        self._peak_reserved: int | None = None
        self._peak_time: float | None = None
        self._least_headroom: int | None = None
        self._current: int | None = None
        self._retries: int | None = None
        self._sum, self._known = 0.0, 0

    def add(self, reading: Reading) -> None:
        if self._samples == 0:
            self._first_s = reading.time_s
        self._samples += 1
        self._last_s = reading.time_s
        peak = highest(self._peak_allocated, reading.allocated_peak)
        if peak != self._peak_allocated:
            self._peak_allocated, self._peak_time = peak, reading.unix_s
        self._peak_reserved = highest(self._peak_reserved, reading.reserved_peak)
        headroom = reading.headroom
        if headroom is not None and (
            self._least_headroom is None or headroom < self._least_headroom
        ):
            self._least_headroom = headroom
        self._current, self._retries = reading.allocated, reading.retries
        if reading.allocated is not None:
            self._sum += reading.allocated
            self._known += 1

    def to_dict(self) -> dict[str, Any]:
        return {
            "samples": self._samples,
            "duration": self._last_s - self._first_s,
            "current_allocated": self._current,
            "mean_allocated": self._sum / self._known if self._known else None,
            "peak_allocated": self._peak_allocated,
            "peak_time": self._peak_time,
            "peak_reserved": self._peak_reserved,
            "least_headroom": self._least_headroom,
            "retries": self._retries,
        }
