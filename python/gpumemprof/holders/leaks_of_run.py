"""``gpumemprof run --leaks``: finds who holds the memory that grew, before the program is gone.

Lines that grow are looked up while the program runs, since what a function held is freed when it
returns, and again at the end, while the program's globals still exist. The result is stored in the
recording, for ``gpumemprof leaks``.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
from types import FrameType

from gpumemprof.holders.leak import Leak, Site
from gpumemprof.holders.watch import LeakWatch
from gpumemprof.read.recording import load
from gpumemprof.recorder.active import ActiveRecording
from gpumemprof.recorder.run_closing import print_lines, print_message

__all__ = ["FACT", "LeaksOfRun"]

FACT = "leak holders"
_MOST_PRINTED = 5
_MOST_STORED = 32
_MOST_CANDIDATES = 8
_MOST_EVENTS_READ = 1_000_000  # well below a second


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
            if is_freed or now is None:
                leak.is_past = True
                if now is not None and now.holders.tell_more_than(leak.holders):
                    leak.holders = now.holders
                found[leak.site] = leak
            elif leak.holders.tell_more_than(now.holders):
                # A function that held it has returned, and its frame is garbage, for example.
                now.holders = leak.holders
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
        """A few lines about what grew, as ``gpumemprof leaks`` has it; call when it is over."""
        grown = [leak for leak in self.found if leak.growth_bytes_per_step is not None]
        with contextlib.suppress(Exception):
            grown = self._judged(grown)
        self._print(grown, False)

    def _judged(self, grown: list[Leak]) -> list[Leak]:
        """With the figures of the whole recording; what is there, but is no leak, is left out."""
        if self._recording.summary.get("events", 0) > _MOST_EVENTS_READ:
            return grown
        verdict = load(self._recording.path).leaks()
        units = {device["device"]: device["repetition"] for device in verdict["devices"]}
        judged = []
        for row in verdict["leaks"]:
            leak = Leak(
                os.path.basename(row["file"] or ""),  # noqa: PTH119
                row["line"] or 0,
                row["function"] or "",
                row["is_backward"],
                row["bytes"],
                row["blocks"],
                row["bytes_per_step"],
                repetition=units[row["device"]],
                when="at the end",
                is_until_collected=verdict["verdict"] == "cycles",
            )
            leak.holders.unknown_holder = row["held_by"]
            judged.append(leak)
        sites = {leak.site[1:] for leak in judged}
        return judged + [leak for leak in grown if leak.is_past and leak.site[1:] not in sites]

    def _print(self, leaks: list[Leak], says_none: bool) -> None:
        if not leaks and says_none:
            print_message("no memory grows from step to step so far")
        for leak in leaks[:_MOST_PRINTED]:
            print_message(f"{leak.headline}: {leak.growth_text()}")
            print_lines([f"  {leak.holder_text()}"])
        if len(leaks) > _MOST_PRINTED:
            print_lines([f"  … and {len(leaks) - _MOST_PRINTED} more"])
