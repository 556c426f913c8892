"""Reads what a recording of this process wrote so far, and finds the lines that keep memory."""

from __future__ import annotations

import contextlib
import os

from gpumemprof import _core
from gpumemprof.recorder.active import ActiveRecording

__all__ = ["FollowedRecording"]

_MOST_SITES = 32
_MOST_BLOCKS = 50
_MOST_BYTES_AT_ONCE = 1 << 22
_EVERYTHING = 1 << 62


class FollowedRecording:
    """Memory and time do not grow with the run: each look reads what is new."""

    def __init__(self, recording: ActiveRecording) -> None:
        self._recording = recording
        # The program may change its folder.
        self._path = os.path.abspath(recording.path)  # noqa: PTH100 - links stay as they are
        self._run: _core.FollowedRun | None = None
        self._read = 0

    def unread_bytes(self) -> int:
        """About how much a look would have to read."""
        return self._size() - self._read

    def _size(self) -> int:
        """Of the file, or of the chapters in a folder."""
        try:
            if os.path.isdir(self._path):  # noqa: PTH112
                return sum(entry.stat().st_size for entry in os.scandir(self._path))
            return os.stat(self._path).st_size  # noqa: PTH116
        except OSError:
            return 0

    def look(self) -> list[_core.KeptSiteRow]:
        """The lines that keep more and more, most bytes first; the file is written out first.

        Empty if nothing can be read: there are no events yet, or the file is gone.
        """
        number = self._recording._number
        if number is None:
            return []
        _core.capture_flush_recording(number)
        with contextlib.suppress(Exception):
            if self._run is None:
                self._run = _core.FollowedRun(self._path)
            self._read = self._size()
            self._run.read(_EVERYTHING, 0, 0)
            return self._run.kept_sites(_MOST_SITES, _MOST_BLOCKS)
        return []
