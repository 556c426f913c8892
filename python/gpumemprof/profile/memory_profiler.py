"""What GPUMemoryProfiler and CPUMemoryProfiler share: scopes, results, monitoring, summaries."""

from __future__ import annotations

import os
import time
import warnings
import weakref
from typing import Any, Callable, TypeVar

from gpumemprof.errors import RecordingWarning
from gpumemprof.profile.figures import ReadScope, ScopeFigures
from gpumemprof.profile.memory_state import LateStack
from gpumemprof.profile.metering import CounterMeter, Meter
from gpumemprof.profile.monitored_device import NO_CARD, Card, MonitoredDevice
from gpumemprof.profile.result import ProfileResult
from gpumemprof.profile.scopes import (
    OpenProfile,
    ProfiledContext,
    device_name,
    error_text,
    function_name,
    own_stack,
    runs_later,
)
from gpumemprof.profile.stacks import ScopeRecording
from gpumemprof.profile.summary import Summary, Totals

__all__ = ["MemoryProfiler", "ProfiledContext"]

_Self = TypeVar("_Self", bound="MemoryProfiler")

_MOST_RESULTS = 100_000


class MemoryProfiler(MonitoredDevice):
    """The common base of `GPUMemoryProfiler` and `CPUMemoryProfiler`; use one of those."""

    track_tensors: bool
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
        super().__init__(device, meter, track_cpu_memory)
        self.track_tensors = track_tensors
        self.collect_stack_traces = collect_stack_traces
        self.synchronize = synchronize
        self.results: list[ProfileResult] = []
        """What was profiled, oldest first; the newest hundred thousand are kept."""
        self.function_stats: dict[str, list[ProfileResult]] = {}
        """The results by name."""
        self._finalizer = weakref.finalize(self, meter.stop)
        self._totals = Totals()
        self.baseline = self._look("baseline")
        """The state when the profiler was made, or cleared."""

    # What differs between kinds of memory.

    def _wait(self) -> bool:
        """Wait for the device; False if neither that nor a call to the driver is possible."""
        return False

    def _card(self) -> Card:
        """The card, as the driver reports it."""
        return NO_CARD

    def _on_seen(self, allocated: int | None) -> None:
        self._totals.see(allocated)

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
            TypeError: ``func`` is not callable, or is a generator or coroutine function, whose
                body a call does not run.
        """
        if not callable(func):
            raise TypeError(f"profile_function() calls a function, and {func!r} is not one")
        if runs_later(func):
            raise TypeError(
                f"{function_name(func)} runs only when what it returns is iterated or awaited: "
                "profile that with profile_context()"
            )
        opened = self._begin(function_name(func), self.synchronize)
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

    def _begin(self, name: str, synchronize: bool) -> OpenProfile:
        opened = OpenProfile(name, synchronize)
        if self.collect_stack_traces:
            opened.recording = ScopeRecording(self._device_id < 0, device_name(self.device))
            opened.stack = own_stack()
        if synchronize and self._wait():
            opened.card = self._card()
        opened.scope = self._meter.open_scope(self.track_cpu_memory)
        return opened

    def _end(self, opened: OpenProfile, error: BaseException | None) -> ProfileResult:
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
            turnover = None if figures is None else figures.turnover
            opened.recording.stop(None if turnover is None else turnover.allocations)
        card = self._card() if has_waited else NO_CARD
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
        opened: OpenProfile,
        figures: ScopeFigures | None,
        card: Card,
        error: BaseException | None,
    ) -> ProfileResult:
        provenance, note = self._meter.provenance, self._meter.note
        if figures is None:
            provenance = "estimated"
            note = "counting restarted while it ran: only its end is known"
            figures = self._end_alone()
        if figures.uncounted:
            provenance = "estimated"
            note = (
                f"{figures.uncounted} allocations could not be tracked: too many were live at once"
            )
        name, start, turnover = opened.name, figures.start_unix_ns, figures.turnover
        peak_stack: LateStack = None
        end_stack = None
        if opened.recording is not None:
            peak_stack, end_stack = opened.recording.stack_at_peak, own_stack()
        return ProfileResult(
            name,
            figures.duration_ns / 1e9,
            self._late_snapshot(
                figures.before,
                start,
                figures.resident_before_bytes,
                name,
                opened.stack,
                opened.card,
            ),
            self._late_snapshot(
                figures.after,
                start + figures.duration_ns,
                figures.resident_after_bytes,
                name,
                end_stack,
                card,
            ),
            self._late_snapshot(
                figures.peak,
                start + figures.peak_after_ns,
                None,
                name,
                peak_stack,
                Card(None, card.total_bytes),
            ),
            turnover.allocated_bytes if turnover is not None else None,
            turnover.freed_bytes if turnover is not None else None,
            turnover.allocations if turnover is not None and self.track_tensors else None,
            turnover.frees if turnover is not None and self.track_tensors else None,
            error=None if error is None else error_text(error),
            own=figures.own,
            provenance=provenance,
            note=note,
            recording=opened.recording,
        )

    def _end_alone(self) -> ScopeFigures:
        now = self._meter.now()
        return ReadScope(time.time_ns(), 0, 0, now, now, now)

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

    # Summaries.

    def get_summary(self) -> Summary:
        """Return totals over everything profiled, and by name under ``function_summaries``.

        >>> summary = profiler.get_summary()  # doctest: +SKIP
        >>> summary["total_function_calls"], summary["peak_memory_usage"]  # doctest: +SKIP
        """
        current = self._meter.now().allocated_bytes
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
