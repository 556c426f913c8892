"""Monitor: a thread that looks at a device now and then, and misses no peak in between.

Every look closes one interval of the running maximum and opens the next, so a spike between two
looks is kept with its exact height and time, however short it was.
"""

from __future__ import annotations

import threading
import time
from typing import Callable

from gpumemprof.metering import AnyScope, Figures

__all__ = ["Monitor"]


class Monitor:
    """Calls ``take`` with the figures of every interval, until stopped."""

    def __init__(
        self, scope: AnyScope, interval_s: float, take: Callable[[Figures, bool], None]
    ) -> None:
        self.interval_s = interval_s
        self._scope = scope
        self._take = take
        self._stops = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gpumemprof-monitor", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Everything until now has been taken when it returns."""
        self._stops.set()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        next_look = time.monotonic()
        is_last = False
        while not is_last:
            # By the clock, so that looks do not drift; those that were missed are not made up for.
            next_look = max(next_look + self.interval_s, time.monotonic())
            is_last = self._stops.wait(next_look - time.monotonic())
            figures = self._scope.close() if is_last else self._scope.turn_over()
            if figures is not None:
                self._take(figures, is_last)
