"""What GPUMemoryProfiler and CPUMemoryProfiler share: scopes, results, monitoring, summaries."""

from __future__ import annotations

import math
import os
import threading
import time
import traceback
import warnings
import weakref
from types import TracebackType
from typing import Any, Callable, TypeVar

from gpumemprof import _core
from gpumemprof.errors import RecordingWarning, UsageError
from gpumemprof.profile.memory_state import MemorySnapshot, SnapshotFields
from gpumemprof.profile.metering import CounterMeter, Meter
from gpumemprof.profile.monitoring import AnyScope, Figures, Monitor
from gpumemprof.profile.optional_math import difference, highest
from gpumemprof.profile.result import ProfileResult
from gpumemprof.profile.stacks import ScopeRecording
from gpumemprof.profile.summary import Summary, Totals

__all__ = ["MemoryProfiler", "ProfiledContext"]

_Self = TypeVar("_Self", bound="MemoryProfiler")

_MOST_RESULTS = 100_000
_MOST_SNAPSHOTS = 100_000
_SHORTEST_INTERVAL_S = 1e-4  # a shorter one would keep the monitor busy doing nothing else
_LONGEST_INTERVAL_S = 1e9
_NO_CARD: tuple[int | None, int | None] = (None, None)

_profilers: weakref.WeakSet[MemoryProfiler] = weakref.WeakSet()


def _forget_all_threads() -> None:
    for profiler in list(_profilers):
        profiler._forget_threads()


os.register_at_fork(after_in_child=_forget_all_threads)


class ProfiledContext:
    """A profiled block of code, made by ``profile_context``; ``result`` is set when it ends.

    >>> profiler = CPUMemoryProfiler()  # doctest: +SKIP
    >>> with profiler.profile_context("load") as context:  # doctest: +SKIP
    ...     batch = next(batches)
    >>> context.result.peak_memory_usage()  # doctest: +SKIP
    """

    def __init__(self, profiler: MemoryProfiler, name: str, synchronize: bool | None) -> None:
        """Use ``profile_context`` instead."""
        self._profiler = profiler
        self._synchronize = profiler.synchronize if synchronize is None else synchronize
        self._open: list[_OpenProfile] = []
        self.name = name
        self.result: ProfileResult | None = None
        """The result of the last run of the block; ``None`` before its end."""

    def __enter__(self) -> ProfiledContext:
        """Start profiling."""
        self._open.append(self._profiler._begin(self.name, self._synchronize))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop profiling; exceptions propagate."""
        self.result = self._profiler._end(self._open.pop(), error)


class _OpenProfile:
    __slots__ = ("card", "name", "recording", "scope", "stack", "synchronize")

    def __init__(self, name: str, synchronize: bool) -> None:
        self.name = name
        self.synchronize = synchronize
        self.card: tuple[int | None, int | None] = (None, None)
        self.recording: ScopeRecording | None = None
        self.stack: str | None = None
        self.scope: AnyScope


class MemoryProfiler:
    """The common base of `GPUMemoryProfiler` and `CPUMemoryProfiler`; use one of those."""

    device: Any
    """The ``torch.device`` that is profiled."""
    track_tensors: bool
    track_cpu_memory: bool
    collect_stack_traces: bool
    synchronize: bool
    """Whether each scope waits for the device at its two ends."""

    def __init__(
        self,
        device: Any,
        meter: Meter,
        track_tensors: bool,
        track_cpu_memory: bool,
        collect_stack_traces: bool,
        synchronize: bool,
    ) -> None:
        """Use `GPUMemoryProfiler` or `CPUMemoryProfiler`."""
        self.device = device
        self.track_tensors = track_tensors
        self.track_cpu_memory = track_cpu_memory
        self.collect_stack_traces = collect_stack_traces
        self.synchronize = synchronize
        self.results: list[ProfileResult] = []
        """What was profiled, oldest first; the newest hundred thousand are kept."""
        self._snapshots: list[MemorySnapshot] = []
        self.snapshots_dropped = 0
        """How many of the oldest snapshots had to go."""
        self.function_stats: dict[str, list[ProfileResult]] = {}
        """The results by name."""
        self._device_id = -1 if device.type == "cpu" else int(device.index)
        self._meter = meter
        self._finalizer = weakref.finalize(self, meter.stop)
        self._lock = threading.Lock()
        self._monitor: Monitor | None = None
        self._totals = Totals()
        self.baseline = self._look("baseline")
        """The state when the profiler was made, or cleared."""
        _profilers.add(self)

    # What differs between kinds of memory.

    def _wait(self) -> bool:
        """Wait for the device; False if neither that nor a call to the driver is possible."""
        return False

    _card_total: int | None = None

    def _card_id(self) -> str:
        """The card's id, as NVML names it; empty if there is not one."""
        return ""

    def _card(self) -> tuple[int | None, int | None]:
        """Used and total bytes of the whole card, as the driver reports them."""
        return _NO_CARD

    def _card_and_outside(
        self, reserved: int | None
    ) -> tuple[tuple[int | None, int | None], int | None]:
        """The same without calling CUDA, and this process's bytes outside the pool."""
        return (None, None), None

    # Scopes.

    def profile_function(
        self, func: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> ProfileResult:
        """Call a function and return what it did to memory; its own return value is dropped.

        Exceptions propagate; ``profiler.results[-1]`` then covers the call up to that point.

        >>> result = CPUMemoryProfiler().profile_function(torch.empty, 1000)  # doctest: +SKIP
        >>> result.memory_allocated  # doctest: +SKIP
        4000

        Args:
            func: the function to call, with the arguments that follow.

        Raises:
            TypeError: ``func`` is not callable.
        """
        if not callable(func):
            raise TypeError(f"profile_function() needs a function, and {func!r} is not one")
        opened = self._begin(_name_of(func), self.synchronize)
        try:
            # Kept until the final reading: what a call leaves allocated includes its return value.
            value = func(*args, **kwargs)
        except BaseException as error:
            self._end(opened, error)
            raise
        result = self._end(opened, None)
        del value
        return result

    def profile_context(
        self, name: str = "context", *, synchronize: bool | None = None
    ) -> ProfiledContext:
        """Profile a block of code.

        >>> with profiler.profile_context("load") as context:  # doctest: +SKIP
        ...     data = torch.randn(1000, 1000)
        >>> context.result.memory_allocated  # doctest: +SKIP
        4000000

        Args:
            name: the name to use in results and summaries.
            synchronize: wait for the device at both ends; the profiler's own setting by default.
        """
        if not isinstance(name, str):
            raise TypeError(f"the name of a context must be a string, not {name!r}")
        return ProfiledContext(self, name, synchronize)

    def _begin(self, name: str, synchronize: bool) -> _OpenProfile:
        opened = _OpenProfile(name, synchronize)
        if self.collect_stack_traces:
            opened.recording = ScopeRecording(self._device_id < 0, _device_name(self.device))
            opened.stack = _own_stack()
        if synchronize and self._wait():
            opened.card = self._card()
        opened.scope = self._meter.open_scope(self.track_cpu_memory)
        return opened

    def _end(self, opened: _OpenProfile, error: BaseException | None) -> ProfileResult:
        late_error: Exception | None = None
        has_waited = False
        if opened.synchronize:
            try:
                has_waited = self._wait()
            except Exception as failure:
                # Work that the function left running on the device failed; if the function raised
                # too, its own error is the one to report.
                late_error = failure if error is None else None
        figures = opened.scope.close()
        if opened.recording is not None:
            opened.recording.stop(figures[6][2] if figures is not None and figures[6] else None)
        card = self._card() if has_waited else (None, None)
        result = self._result(opened, figures, card, error or late_error)
        if (problem := self._meter.check()) is not None:
            self._use_counters(problem)
            result.provenance, result.note = self._meter.provenance, self._meter.note
        self._keep(result)
        if late_error is not None:
            raise late_error
        return result

    def _result(
        self,
        opened: _OpenProfile,
        figures: Figures | None,
        card: tuple[int | None, int | None],
        error: BaseException | None,
    ) -> ProfileResult:
        provenance, note = self._meter.provenance, self._meter.note
        if figures is None:
            provenance = "estimated"
            note = "counting was restarted while it ran: only the state at its end is known"
            figures = self._end_alone()
        (start, duration, peak_after, before, peak, after, *rest) = figures
        turnover, own, uncounted, rss_before, rss_after = rest
        if uncounted:
            provenance = "estimated"
            note = f"{uncounted} allocations could not be tracked: too many were live at once"
        name = opened.name
        peak_stack: Any = None
        end_stack = None
        if opened.recording is not None:
            peak_stack, end_stack = opened.recording.stack_at_peak, _own_stack()
        allocated, freed, created, deleted = turnover or (None, None, None, None)
        if not self.track_tensors:
            created = deleted = None
        return ProfileResult(
            name,
            duration / 1e9,
            self._fields(before, start, rss_before, name, opened.stack, opened.card),
            self._fields(after, start + duration, rss_after, name, end_stack, card),
            self._fields(peak, start + peak_after, None, name, peak_stack, (None, card[1])),
            allocated,
            freed,
            created,
            deleted,
            error=None if error is None else _text_of(error),
            own=own,
            provenance=provenance,
            note=note,
            recording=opened.recording,
        )

    def _end_alone(self) -> Figures:
        now = self._meter.now()
        return (time.time_ns(), 0, 0, now, now, now, (), None, 0, None, None)

    def _fields(
        self,
        state: Any,
        time_ns: int,
        resident: int | None,
        operation: str,
        stack: Any,
        card: tuple[int | None, int | None],
        outside: int | None = None,
    ) -> SnapshotFields:
        allocated, active, reserved, most_allocated, most_reserved = state
        return (
            time_ns / 1e9,
            allocated,
            reserved,
            most_allocated,
            most_reserved,
            active,
            difference(reserved, active),
            resident if self.track_cpu_memory else 0,
            self._device_id,
            operation,
            stack,
            card[0],
            card[1],
            outside,
        )

    def _look(self, operation: str) -> MemorySnapshot:
        """The current state, with everything that is known."""
        state = self._meter.now()
        resident = _core.resident_bytes() if self.track_cpu_memory else None
        card, outside = self._card_and_outside(state[2])
        fields = self._fields(state, time.time_ns(), resident, operation, None, card, outside)
        return MemorySnapshot(*fields)

    def _use_counters(self, problem: str) -> None:
        """The native figures were found to be wrong; from now on use torch's counters."""
        self._finalizer()
        self._meter = CounterMeter(self._device_id, problem)
        warnings.warn(str(self._meter.note), RecordingWarning, stacklevel=4)

    def _keep(self, result: ProfileResult) -> None:
        with self._lock:
            self.results.append(result)
            if len(self.results) > _MOST_RESULTS:
                del self.results[: _MOST_RESULTS // 10]
            of_name = self.function_stats.setdefault(result.function_name, [])
            of_name.append(result)
            if len(of_name) > _MOST_RESULTS:
                del of_name[: _MOST_RESULTS // 10]
            self._totals.add(result)

    # Monitoring.

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
                f"the monitoring interval must be a positive number of seconds, not {interval!r}",
                "usage",
            )
        with self._lock:
            if self._monitor is not None:
                warnings.warn(
                    "monitoring is already on; this call changes nothing",
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
                    f"monitoring could not start, because no thread could be started: {error}",
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
        dropped, seen = monitor.take()
        self.snapshots_dropped += dropped
        for figures, used, process in seen:
            start, duration, peak_after, before, peak, after, *_, resident = figures
            fields = []
            ends = highest(before[0], after[0])
            if ends is not None and peak[0] > ends:
                at = start + peak_after
                fields.append(self._fields(peak, at, None, "peak between samples", None, _NO_CARD))
            card = _NO_CARD if used is None else (used, self._card_total)
            outside = outside_of_pool(process, after[2])
            end = start + duration
            fields.append(self._fields(after, end, resident, "monitoring", None, card, outside))
            self._add_snapshots([MemorySnapshot(*all_fields) for all_fields in fields])

    def _add_snapshots(self, seen: list[MemorySnapshot]) -> None:
        self._snapshots.extend(seen)
        for snapshot in seen:
            self._totals.see(snapshot.allocated_memory)
        if len(self._snapshots) > _MOST_SNAPSHOTS:
            dropped = _MOST_SNAPSHOTS // 10
            del self._snapshots[:dropped]
            self.snapshots_dropped += dropped

    # Summaries.

    def get_summary(self) -> Summary:
        """Return totals over everything profiled, and by name under ``function_summaries``.

        >>> summary = profiler.get_summary()  # doctest: +SKIP
        >>> summary["total_function_calls"], summary["peak_memory_usage"]  # doctest: +SKIP
        """
        current = self._meter.now()[0]
        with self._lock:
            self._collect(self._monitor)
            return self._totals.summary(
                device=str(self.device),
                current=current,
                baseline=self.baseline.allocated_memory,
                monitoring=self._monitor is not None,
                snapshots=list(self._snapshots),
                results=list(self.results),
            )

    def clear_results(self) -> None:
        """Drop all results, snapshots and statistics, and take a new baseline.

        torch's own peak counters are not reset.

        >>> profiler.clear_results()  # doctest: +SKIP
        >>> profiler.results  # doctest: +SKIP
        []
        """
        baseline = self._look("baseline")
        with self._lock:
            self._collect(self._monitor)
            self.results.clear()
            self._snapshots.clear()
            self.snapshots_dropped = 0
            self.function_stats.clear()
            self._totals = Totals()
            self.baseline = baseline

    def plot(self, path: str | os.PathLike[str] | None = None) -> Any:
        """Plot the monitored timeline and the profiled scopes; needs matplotlib.

        >>> profiler.plot("memory.png")  # doctest: +SKIP

        Args:
            path: where to save the figure; if omitted, it is only returned.

        Returns:
            The matplotlib figure.

        Raises:
            EnvironmentProblem: matplotlib is not installed.
        """
        from gpumemprof.profile.plot import draw

        with self._lock:
            self._collect(self._monitor)
            snapshots, results = list(self._snapshots), list(self.results)
        return draw(snapshots, results, str(self.device), path)

    def __enter__(self: _Self) -> _Self:
        """Return the profiler itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stop monitoring."""
        self.stop_monitoring()

    def __repr__(self) -> str:
        """The class, the device and the number of results."""
        return f"<{type(self).__name__} {self.device}: {len(self.results)} results>"

    def __str__(self) -> str:
        """The summary as text."""
        return str(self.get_summary())

    def _repr_html_(self) -> str:
        return self.get_summary()._repr_html_()

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


def _name_of(func: Callable[..., Any]) -> str:
    name = getattr(func, "__name__", None)
    if not isinstance(name, str):
        inner = getattr(func, "func", None)  # functools.partial
        name = getattr(inner, "__name__", None) or type(func).__name__
    return str(name)


def _text_of(error: BaseException) -> str:
    # The exception itself would keep the frames of its traceback, and their tensors, alive.
    try:
        text = str(error)
    except Exception:
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _device_name(device: Any) -> str:
    return "cpu:0" if device.type == "cpu" else f"cuda:{device.index}"


def _own_stack() -> str:
    frames = traceback.extract_stack()
    while frames and os.path.dirname(frames[-1].filename) == _OUR_FOLDER:  # noqa: PTH120
        frames.pop()
    return "".join(
        f'  File "{frame.filename}", line {frame.lineno}, in {frame.name}\n' for frame in frames
    ).rstrip("\n")


_OUR_FOLDER = os.path.dirname(__file__)  # noqa: PTH120
