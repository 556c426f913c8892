"""CounterMonitor: a thread that polls counters, for sources that do not report every event.

Where the allocator's events are counted natively, a native thread polls instead
(``_core.Sampler``); it has the same two functions and never takes the GIL.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import Protocol

from gpumemprof.profile.figures import ReadSample, ReadSamples, Samples, ScopeFigures

__all__ = ["AnyScope", "CounterMonitor", "Monitor"]

_MOST_SAMPLES = 100_000


class AnyScope(Protocol):
    """An open scope of any meter."""

    def close(self) -> ScopeFigures | None: ...
    def turn_over(self) -> ScopeFigures | None: ...


class Monitor(Protocol):
    """Samples a device until stopped, and keeps the samples until they are taken."""

    def take(self) -> Samples: ...
    def stop(self) -> None: ...


class CounterMonitor:
    """Turns a scope over again and again."""

    def __init__(self, scope: AnyScope, interval_s: float) -> None:
        self._interval_s = interval_s
        self._scope = scope
        self._seen: deque[ScopeFigures] = deque()
        self._dropped = 0
        self._lock = threading.Lock()
        self._stops = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gpumemprof-monitor", daemon=True)
        self._thread.start()

    def take(self) -> ReadSamples:
        """The samples since the last call."""
        with self._lock:
            dropped, seen = self._dropped, list(self._seen)
            self._dropped = 0
            self._seen.clear()
        return ReadSamples([ReadSample(figures) for figures in seen], dropped)

    def stop(self) -> None:
        """Take a last sample, and stop."""
        self._stops.set()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        next_look = time.monotonic()
        is_last = False
        while not is_last:
            next_look = max(next_look + self._interval_s, time.monotonic())
            is_last = self._stops.wait(min(next_look - time.monotonic(), threading.TIMEOUT_MAX))
            figures = self._scope.turn_over()
            if figures is None:
                continue
            with self._lock:
                self._seen.append(figures)
                if len(self._seen) > _MOST_SAMPLES:
                    self._seen.popleft()
                    self._dropped += 1
