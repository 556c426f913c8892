"""``gpumemprof run --leaks``: finds who holds the memory that grew, before the program is gone.

Lines that grow are looked up while the program runs, since what a function held is freed when it
returns, and again at the end, while the program's globals still exist. The result is stored in the
recording, for ``gpumemprof leaks``.
"""

from __future__ import annotations

import contextlib
import json
import signal
import threading
from types import FrameType

from gpumemprof.holders.leak import Leak, Site
from gpumemprof.holders.watch import LeakWatch
from gpumemprof.recorder.active import ActiveRecording
from gpumemprof.recorder.run_closing import print_lines, print_message

__all__ = ["FACT", "LeaksOfRun"]

FACT = "leak holders"
_MOST_PRINTED = 5
_MOST_STORED = 32
_MOST_CANDIDATES = 8


class LeaksOfRun:
    """Watches the recording of this process until it ends."""

    def __init__(self, recording: ActiveRecording, signal_name: str = "") -> None:
        self._recording = recording
        self._watch = LeakWatch(
            recording, on_leak=lambda leak: None, most_candidates=_MOST_CANDIDATES
        )
        self.found: list[Leak] = []
        """What was stored at the end."""
        if signal_name:
            self._listen(signal_name)

    def _listen(self, name: str) -> None:
        """Print on request; a handler of the program comes first."""
        number = getattr(signal, name, None)
        if number is None or threading.current_thread() is not threading.main_thread():
            return
        with contextlib.suppress(OSError, ValueError):
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, self._print_now)

    def _print_now(self, number: int, frame: FrameType | None) -> None:
        with contextlib.suppress(Exception):
            leaks = self._watch.look_again()
            self._store(self._merged(leaks))
            self._print([leak for leak in leaks if leak.growth_bytes_per_step is not None], True)

    def _merged(self, last: list[Leak]) -> list[Leak]:
        """What holds memory now, then what was found while the program ran and is gone."""
        found: dict[Site, Leak] = {leak.site: leak for leak in last}
        for leak in [*self._watch.leaks, *self._watch.candidates]:
            now = found.get(leak.site)
            # What is left at the end may be the last block alone, and its holder another.
            is_freed = now is None or now.bytes < leak.bytes // 2
            if is_freed or now is None or not now.holders.is_known:
                leak.is_past = is_freed
                found[leak.site] = leak
        return [*found.values()][:_MOST_STORED]

    def _store(self, leaks: list[Leak]) -> None:
        if leaks:
            text = json.dumps([leak.row() for leak in leaks], ensure_ascii=False)
            self._recording._add_facts({FACT: text})

    def finish(self) -> None:
        """Look for the last time; call while the recording is open."""
        with contextlib.suppress(Exception):
            self.found = self._merged(self._watch.look_again())
            self._store(self.found)
        with contextlib.suppress(Exception):
            self._watch.stop()

    def print_found(self) -> None:
        """A few lines about what grew."""
        self._print([leak for leak in self.found if leak.growth_bytes_per_step is not None], False)

    def _print(self, leaks: list[Leak], says_none: bool) -> None:
        if not leaks and says_none:
            print_message("no memory grows from step to step so far")
        for leak in leaks[:_MOST_PRINTED]:
            print_message(f"memory grows at {leak.where}: {leak.growth_text()}")
            print_lines([f"  {leak.holder_text()}"])
        if len(leaks) > _MOST_PRINTED:
            print_lines([f"  … and {len(leaks) - _MOST_PRINTED} more"])
