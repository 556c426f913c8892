"""Finds the lines that keep memory, in what a recording of this process wrote so far."""

from __future__ import annotations

import os
import threading

from gpumemprof import _core
from gpumemprof.recorder.active import ActiveRecording

__all__ = ["FollowedRecording"]

_MOST_SITES = 32
_MOST_BLOCKS = 50


class FollowedRecording:
    """Memory and time do not grow with the run: each look reads what is new.

    The reading is done by a thread that needs no Python, so the program does not notice it.
    Lists of lines are empty if nothing can be read: there are no events yet, or the file is gone.
    """

    def __init__(self, recording: ActiveRecording) -> None:
        self._recording = recording
        # The program may change its folder, and the recording may not have its name yet.
        self._folder = os.path.dirname(os.path.abspath(recording.path))  # noqa: PTH100, PTH120
        self._look: _core.BackgroundLook | None = None
        # The handler of a signal may come while this thread has it.
        self._lock = threading.RLock()

    def _background(self) -> _core.BackgroundLook | None:
        number = self._recording._number
        if self._look is None and number is not None:
            name = os.path.basename(self._recording.path)  # noqa: PTH119
            self._look = _core.BackgroundLook(os.path.join(self._folder, name), number)  # noqa: PTH118
        return None if number is None else self._look

    def start_look(self, only_growing: bool) -> bool:
        """Look in the background, if that is possible; `take` has the result."""
        if not self._lock.acquire(blocking=False):
            return False
        try:
            look = self._background()
            return look is not None and look.start(_MOST_SITES, _MOST_BLOCKS, only_growing)
        finally:
            self._lock.release()

    def take(self, most_ms: int = 0) -> list[_core.KeptSiteRow] | None:
        """The lines that the last look found, once; None: it is going on after this time."""
        if self._look is None or not self._lock.acquire(blocking=False):
            return None
        try:
            return self._look.take(most_ms)
        finally:
            self._lock.release()

    def look_now(self) -> list[_core.KeptSiteRow]:
        """All lines that keep memory, whether or not it grows; waits for it."""
        with self._lock:
            look = self._background()
            return [] if look is None else look.look_now(_MOST_SITES, _MOST_BLOCKS)

    def abandon(self) -> None:
        """In a forked child."""
        if self._look is not None:
            self._look.abandon()
