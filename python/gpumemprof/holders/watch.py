"""``watch_leaks``: says which lines keep more memory in every training step, and who holds it.

After some steps (10, 16, 26, 42, … and later about every half minute), a thread that needs no
Python reads what the recorder wrote since. A line whose memory never falls back from step to step
is reported once, with its holders, at the end of the first step after that. In all other steps this
costs a call. Programs without steps are interrupted instead, as by a signal, after some thousand
events and then ever more of them: what holds memory there may be gone at their end.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterable
from pathlib import Path
from types import FrameType
from typing import Callable

from gpumemprof import _core
from gpumemprof.errors import LeakWarning, RecordingWarning
from gpumemprof.holders.followed import FollowedRecording
from gpumemprof.holders.leak import Leak, Site, leak_at, site_of
from gpumemprof.holders.reading import is_own_frame
from gpumemprof.holders.search import find_holders, no_collection
from gpumemprof.holders.warning import warn_of_leak
from gpumemprof.hooks import steps
from gpumemprof.recorder import open_recordings
from gpumemprof.recorder.active import ActiveRecording
from gpumemprof.torch_calls import readiness
from gpumemprof.torch_calls.optimizers import after_steps

__all__ = ["LeakWatch", "watch_leaks"]

_FIRST_LOOK = 10
_LAST_COUNTED = 320
_SECONDS_BETWEEN = 30.0
_MOST_WAITED_MS = 50
_MOST_WAITED_AT_END_MS = 5_000
_MOST_LEAKS = 100
_MOST_AT_END = 8
_MOST_WAITED_WHEN_ASKED_MS = 500
_EVENTS_BETWEEN_REPORTS = 200
_FIRST_EVENTS = 1_000
_MOST_EVENTS_BETWEEN = 1_000_000


def _innermost_frame(error: Exception) -> FrameType:
    """Where it was raised; it was caught, so it has a traceback."""
    *_, (frame, _line) = traceback.walk_tb(error.__traceback__)
    return frame


class LeakWatch:
    """Watches one recording; made by `watch_leaks`.

    >>> watch = gpumemprof.watch_leaks()  # doctest: +SKIP
    >>> train()  # doctest: +SKIP
    >>> watch.stop()  # doctest: +SKIP
    """

    def __init__(
        self,
        recording: ActiveRecording,
        is_own: bool = False,
        on_leak: Callable[[Leak], None] | None = None,
        most_candidates: int = 0,
        suppress: Iterable[str] = (),
    ) -> None:
        """Use `watch_leaks`.

        Args:
            recording: of this process.
            is_own: end the recording and delete its file at the end.
            on_leak: instead of a warning.
            most_candidates: for so many lines that keep memory of several steps, but do not grow,
                the holders are looked up too: what garbage collection frees is gone later.
            suppress: lines that may grow.
        """
        self.leaks: list[Leak] = []
        """What was found so far, in the order it was found."""
        self.candidates: list[Leak] = []
        self._most_candidates = most_candidates
        self._suppressed = (suppress,) if isinstance(suppress, str) else tuple(suppress)
        self._recording, self._is_own, self._on_leak = recording, is_own, on_leak
        self._followed = FollowedRecording(recording)
        self._steps = 0
        self._next_step = _FIRST_LOOK
        self._next_time = float("inf")
        self._rows: list[_core.KeptSiteRow] | None = None  # to be reported at the next step
        self._reported: set[Site] = set()
        self._is_on = True
        self._is_inside = False
        self._is_looking = False
        self._events_between = _FIRST_EVENTS
        self._steps_when_asked = 0
        self._bytes_when_asked: dict[Site, int] | None = None
        self._handle: object = None
        steps.listen(self._after_step)
        readiness.when_imported(self._install)
        os.register_at_fork(after_in_child=self._forget)
        if most_candidates:
            self._ask_to_be_called()

    def _install(self) -> None:
        if self._is_on:
            self._handle = after_steps(self._after_step)

    def _forget(self) -> None:
        """In a forked child: the recording is the parent's."""
        self._is_on = False
        self._followed.abandon()

    def _after_step(self) -> None:
        self._steps += 1
        is_due = self._steps >= self._next_step or time.monotonic() >= self._next_time
        if self._rows is None and not self._is_looking and not is_due:
            return
        if not self._is_on or self._is_inside:
            return
        self._is_inside = True
        try:
            with no_collection():
                self._look(is_due)
        finally:
            self._is_inside = False

    def _ask_to_be_called(self) -> None:
        if self._rows is not None:
            _core.capture_call_after_events(_EVENTS_BETWEEN_REPORTS, self._after_events)
            return
        _core.capture_call_after_events(self._events_between, self._after_events)
        self._events_between = min(2 * self._events_between, _MOST_EVENTS_BETWEEN)

    def _after_events(self) -> None:
        """Anywhere in the program, in its main thread: it may even be in this object."""
        if not self._is_on:
            return
        try:
            self._look_without_steps()
        except Exception as error:
            # What a handler of a signal raised meanwhile is for the program, as Ctrl-C is.
            if not is_own_frame(_innermost_frame(error)):
                raise
        finally:
            self._ask_to_be_called()

    def _look_without_steps(self) -> None:
        has_steps = self._steps > self._steps_when_asked
        self._steps_when_asked = self._steps
        if has_steps:
            self._bytes_when_asked = None
            return
        if self._is_inside:
            return
        self._bytes_when_asked = self._bytes_when_asked or {}
        self._is_inside = True
        try:
            with no_collection():
                self._look(is_due=True, most_waited_ms=_MOST_WAITED_WHEN_ASKED_MS)
        finally:
            self._is_inside = False

    def _look(self, is_due: bool, most_waited_ms: int = _MOST_WAITED_MS) -> None:
        if self._rows is not None:
            self._report_one()
            return
        # Steps so short that the next look is due before the last has ended: it is waited for.
        if self._is_looking and not self._take(most_waited_ms if is_due else 0):
            if is_due:
                self._plan()
            return
        if is_due:
            self._plan()
            self._is_looking = self._followed.start_look(only_growing=self._most_candidates == 0)
        self._report_one()

    def _plan(self) -> None:
        """When to look next, if there are steps."""
        if self._steps < _FIRST_LOOK:
            return
        if self._steps < _LAST_COUNTED:
            self._next_step = self._steps + max(1, 5 * self._steps // 8)
        else:
            self._next_step = 1 << 62
            self._next_time = time.monotonic() + _SECONDS_BETWEEN

    def _take(self, most_ms: int) -> bool:
        """Whether the look has ended."""
        rows = self._followed.take(most_ms)
        if rows is None:
            return False
        self._is_looking = False
        if self._bytes_when_asked is not None:
            rows = self._grown_since_asked(rows, self._bytes_when_asked)
        new = [row for row in rows if self._is_of_interest(row)]
        # What grows comes first.
        new.sort(key=lambda row: row["growth_bytes_per_step"] is None)
        self._rows = new or None
        return True

    def _grown_since_asked(
        self, rows: list[_core.KeptSiteRow], before: dict[Site, int]
    ) -> list[_core.KeptSiteRow]:
        """Those that hold more than at the look before.

        Without steps, a line that made the model looks like one that leaks.
        """
        self._bytes_when_asked = {site_of(row): row["bytes"] for row in rows}
        return [row for row in rows if row["bytes"] > before.get(site_of(row), row["bytes"])]

    def _is_suppressed(self, row: _core.KeptSiteRow) -> bool:
        """As `gpumemprof leaks` does it: a file or a line in it, folders may be left out."""
        file = f"/{row['file'] or ''}"
        places = (file, f"{file}:{row['line']}")
        return any(place.endswith(f"/{one}") for one in self._suppressed for place in places if one)

    def _is_of_interest(self, row: _core.KeptSiteRow) -> bool:
        if self._suppressed and self._is_suppressed(row):
            return False
        site = site_of(row)
        if row["growth_bytes_per_step"] is not None:
            return site not in self._reported
        is_known = any(site == leak.site for leak in self.candidates)
        return not is_known and len(self.candidates) < self._most_candidates

    def _report_one(self) -> None:
        """One search in a step; the rest waits for the following ones."""
        if not self._rows:
            return
        row, self._rows = self._rows[0], self._rows[1:] or None
        if not self._is_of_interest(row) or len(self.leaks) >= _MOST_LEAKS:
            return
        leak = leak_at(row)
        leak.holders = find_holders(row["places"])
        if leak.growth_bytes_per_step is None:
            self.candidates.append(leak)
            return
        self._reported.add(leak.site)
        self.leaks.append(leak)
        if self._on_leak is not None:
            self._on_leak(leak)
        else:
            warn_of_leak(str(leak))

    def _report_rest(self) -> None:
        """What was found, but not reported yet: steps may be shorter than a look."""
        with no_collection():
            if self._is_looking:
                self._take(_MOST_WAITED_AT_END_MS)
            for _ in range(_MOST_AT_END):
                self._report_one()

    def look_again(self) -> list[Leak]:
        """All lines that keep memory now, whether they still grow or only accumulated it."""
        found = []
        with no_collection():
            rows = self._followed.look_now()
            self._is_looking = False
            rows.sort(key=lambda row: row["growth_bytes_per_step"] is None)
            for row in rows[:_MOST_AT_END]:
                leak = leak_at(row)
                leak.holders = find_holders(row["places"])
                found.append(leak)
        return found

    def stop(self) -> list[Leak]:
        """Stop watching; returns what was found. A recording that was started for it ends, too.

        >>> watch.stop()  # doctest: +SKIP
        []
        """
        if self._is_on:
            self._is_on = False
            if self._most_candidates:
                _core.capture_call_after_events(0, None)
            steps.stop_listening(self._after_step)
            if self._handle is not None:
                self._handle.remove()  # type: ignore[attr-defined]
            try:
                self._report_rest()
            finally:  # A program may turn warnings into errors.
                if self._is_own:
                    self._end_recording()
        return self.leaks

    def _end_recording(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RecordingWarning)
            self._recording.stop()
        Path(self._recording.path).unlink(missing_ok=True)

    def __enter__(self) -> LeakWatch:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # The program's own exception is not replaced by a warning that counts as an error.
        with contextlib.suppress(LeakWarning) if kind is not None else contextlib.nullcontext():
            self.stop()


def watch_leaks(
    *,
    on_leak: Callable[[Leak], None] | None = None,
    cpu: bool | None = None,
    suppress: Iterable[str] = (),
) -> LeakWatch:
    """Watch the training steps that follow: a warning names each line whose memory keeps growing.

    ::

        with gpumemprof.watch_leaks() as watch:
            train()
        for leak in watch.leaks:
            print(leak.where, leak.growth_bytes_per_step, leak.held_by)

    Steps end with an optimizer's step or with `gpumemprof.step`. A recording that is open is used;
    otherwise one is made in the folder for temporary files, and deleted by ``stop()``.

    Args:
        on_leak: is called with each leak, instead of a `LeakWarning`.
        cpu: watch CPU tensors instead of CUDA memory; the default if there is no CUDA.
        suppress: lines that may grow, as ``"train.py:12"``, or all lines of a file: ``"train.py"``.
    """
    with open_recordings.lock:
        if open_recordings.active:
            recording = open_recordings.active[-1]
            return LeakWatch(recording, False, on_leak, suppress=suppress)
    descriptor, path = tempfile.mkstemp(prefix="gpumemprof-", suffix=".gmp")
    os.close(descriptor)
    return LeakWatch(ActiveRecording(path, True, cpu, True), True, on_leak, suppress=suppress)
