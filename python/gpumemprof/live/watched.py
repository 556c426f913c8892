"""One recording, looked at again and again: its figures, and what has become of its program."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpumemprof import _core
from gpumemprof.errors import Error, InputError
from gpumemprof.live import system_processes
from gpumemprof.regular_file import open_regular

__all__ = ["RecordingState", "WatchedRecording"]

_HEADER_BYTES = 16
_MAGIC = b"\x89GMP\r\n\x1a\n"
_CHUNK_BYTES = 1 << 21
# The recorder writes at least this often if anything happens.
_QUIET_SECONDS = 2.0
_RATE_SECONDS = 1.0
# A block that is to be written needs more than this.
_LEAST_ROOM_BYTES = 1 << 16
_INTERRUPTED = "exception: KeyboardInterrupt"
_PEAKS = ("recent_peak_allocated_bytes", "recent_peak_reserved_bytes", "recent_peak_used_bytes")


@dataclass
class RecordingState:
    """What is happening to a recording: a word for programs, and a sentence for people."""

    name: str = "starting"
    text: str = "nothing has been written yet"

    @property
    def is_over(self) -> bool:
        """Whether nothing more is expected."""
        return self.name == "ended" or self.is_bad

    @property
    def is_bad(self) -> bool:
        """Whether it ended in a way that nobody wanted, as far as the recording says."""
        return self.name in ("crashed", "stopped", "lost", "damaged", "removed", "unreadable")


class WatchedRecording:
    """Follows one recording.

    Attributes:
        report: the last look, as `_core.FollowedRun` reports it; empty before the first.
        state: what is happening to it.
        events_per_second: of all devices over the last second; None: not known yet.
        damage: why the rest of it cannot be read; None: it can.
    """

    def __init__(self, path: Path, most_sites: int = 30, most_steps: int = 120) -> None:
        self.path = path
        self.report: dict[str, Any] = {}
        self.state = RecordingState()
        self.events_per_second: float | None = None
        self.damage: Error | None = None
        self.notes: list[str] = []
        self._most = (most_sites, most_steps)
        self._run: _core.FollowedRun | None = None
        self._counts: deque[tuple[float, int]] = deque()
        self._peaks: dict[tuple[str, str], int] = {}
        self._bytes = -1
        self._grew_at = time.monotonic()
        self._steps: list[int] | None = None
        self._stepped_at = 0.0
        self._was_written: bool | None = True
        self._asked_at = 0.0

    def look(self, most_seconds: float) -> None:
        """Read what is new, and see what has become of the program."""
        if self.state.is_over and self.state.name not in ("lost", "stopped"):
            return
        try:
            if self._run is None and not self._open():
                return
            self._read(time.monotonic() + most_seconds)
        except Error as error:
            self._fail(error)
            return
        except OSError as error:  # It was removed at this very moment.
            self._fail(Error(error.strerror or "it cannot be read", "bad_input", str(self.path)))
            return
        self._note_rate()
        self._note_steps()
        self._see_state()
        if self.state.is_over:
            self.events_per_second = None

    @property
    def last_event_seconds(self) -> float | None:
        """How long ago the last event was; None if that is not known."""
        times = [device["last_time_ns"] for device in self.report.get("devices", [])]
        known = [moment for moment in times if moment is not None]
        return max(0.0, time.time() - max(known) / 1e9) if known else None

    @property
    def idle_seconds(self) -> float | None:
        """How long there was neither an event nor another step; None if that is not known."""
        event = self.last_event_seconds
        if event is None or self._steps is None:
            return None
        return min(event, time.monotonic() - self._stepped_at)

    @property
    def size_bytes(self) -> int:
        """Of the file now; 0 if it is gone."""
        with contextlib.suppress(OSError):
            if self.path.is_dir():
                return sum(part.stat().st_size for part in self.path.iterdir())
            return self.path.stat().st_size
        return 0

    def _open(self) -> bool:
        # A file appears before its first bytes do, and a folder before its first chapter.
        if self.path.exists() and not self.path.is_dir():
            with open_regular(self.path) as file:
                start = file.read(_HEADER_BYTES)
            if not _MAGIC.startswith(start[: len(_MAGIC)]):
                raise InputError(
                    "this is not a recording",
                    "bad_input",
                    str(self.path),
                    "name a .gmp file that gpumemprof run writes",
                )
            if len(start) < _HEADER_BYTES:
                self._set("starting", _nothing_written(self.path))
                return False
        if self.path.is_dir() and not any(self.path.iterdir()):
            self._set("starting", _nothing_written(self.path))
            return False
        self._run = _core.FollowedRun(str(self.path))
        return True

    def _read(self, deadline: float) -> None:
        """In parts, so that a long recording that is already there does not stop the screen."""
        assert self._run is not None
        peaks = self._peaks
        while True:
            report = json.loads(self._run.read(_CHUNK_BYTES, *self._most))
            for device in report["devices"]:
                for peak in _PEAKS:
                    if device[peak] is not None:
                        key = device["device"], peak
                        peaks[key] = device[peak] = max(device[peak], peaks.get(key, 0))
            if not report["is_behind"] or time.monotonic() > deadline:
                break
        self.report = report
        # Peaks are those since the last look that had read everything.
        if not report["is_behind"]:
            self._peaks = {}

    def _note_rate(self) -> None:
        events = sum(device["events"] for device in self.report["devices"])
        now = time.monotonic()
        # While it catches up, its reading speed is not the program's.
        if self.report["is_behind"]:
            self._counts.clear()
            self.events_per_second = None
            return
        self._counts.append((now, events))
        while len(self._counts) > 2 and now - self._counts[1][0] >= _RATE_SECONDS:
            self._counts.popleft()
        first, before = self._counts[0]
        is_enough = now - first >= _RATE_SECONDS
        self.events_per_second = (events - before) / (now - first) if is_enough else None

    def _note_steps(self) -> None:
        """A step need not allocate: CUDA graphs replay it."""
        steps = [one["step"] for device in self.report["devices"] for one in device["steps"][-1:]]
        if steps != self._steps:
            # What was there before the first look came before the file was last written to.
            ago = self._unchanged_seconds() if self._steps is None else 0.0
            self._stepped_at = time.monotonic() - ago
            self._steps = steps

    def _see_state(self) -> None:
        report = self.report
        if report["problem"]:
            self._set("stopped", f"the recording stopped: {report['problem']}")
        elif report["ended"] is not None:
            how = report["ended"]
            is_crash = how.startswith(("exception", "signal ")) and how != _INTERRUPTED
            self._set("crashed" if is_crash else "ended", _ending(report["ended"]))
        elif report["is_behind"]:
            read, size = report["file_bytes"], max(self.size_bytes, 1)
            self._set("reading", f"reading what is there: {min(read * 100 // size, 99)} %")
        else:
            self._see_program()

    def _see_program(self) -> None:
        now = time.monotonic()
        if self.report["file_bytes"] != self._bytes:
            self._grew_at = now if self._bytes >= 0 else now - self._unchanged_seconds()
            self._bytes = self.report["file_bytes"]
        if now - self._grew_at < _QUIET_SECONDS:
            self._set("recording", "recording")
            return
        is_here = self.report["host"] in (None, socket.gethostname())
        if is_here and now - self._asked_at > _QUIET_SECONDS / 2:
            self._asked_at = now
            self._was_written = system_processes.is_written(self.path, self.report["pid"])
        has_events = bool(self.report["devices"])
        ago = f"last event {_ago(self.last_event_seconds)}" if has_events else "no event"
        if is_here and self._was_written is False:
            self._set("lost", f"killed or lost, {ago}")
        elif is_here and (room := self._room_bytes()) < _LEAST_ROOM_BYTES:
            full = f"the disk is full ({_core.format_bytes(room)} left)"
            self._set("stopped", f"{full}, so nothing more is recorded, {ago}; the program goes on")
        elif not is_here:
            where = f"its program runs on {self.report['host']}, which cannot be seen from here"
            self._set("quiet", f"nothing written lately, {ago}; {where}")
        else:
            self._set("recording", f"recording, {ago}")

    def _room_bytes(self) -> int:
        """On the disk of the recording; plenty if it does not say."""
        try:
            disk = os.statvfs(self.path)
        except OSError:
            return _LEAST_ROOM_BYTES
        return disk.f_bavail * disk.f_frsize

    def _unchanged_seconds(self) -> float:
        try:
            return max(0.0, time.time() - self.path.stat().st_mtime)
        except OSError:
            return 0.0

    def _set(self, name: str, text: str) -> None:
        self.state = RecordingState(name, text)

    def _fail(self, error: Error) -> None:
        """Show what was read before; a recording that was replaced is followed anew."""
        run, self._run = self._run, None
        if run is None:
            self._set("unreadable", str(error))
            return
        self.report = json.loads(run.report(*self._most))
        if not self.path.exists():
            self._set("removed", "the recording was removed; these are its last figures")
        elif "shorter" in error.message or "replaced" in error.message:
            self.notes = [f"{self.path.name} was replaced while watched: this is the new one"]
            self.report = {}
            self._counts.clear()
            self._set("starting", "a new recording under the same name")
        else:
            self.damage = Error(
                error.message, error.code, error.where, "what came before it is shown"
            )
            self._set("damaged", str(self.damage))


def _nothing_written(path: Path) -> str:
    """Whether anything can still be expected of a file or folder without content."""
    if system_processes.is_written(path, None) is False and not _is_new(path):
        return "nothing has been written yet, and no process writes to it"
    return "nothing has been written yet"


def _is_new(path: Path) -> bool:
    with contextlib.suppress(OSError):
        return time.time() - path.stat().st_mtime < _QUIET_SECONDS
    return False


def _ending(reason: str) -> str:
    kind, _, detail = reason.partition(": ")
    if reason == _INTERRUPTED:
        return "ended: interrupted (Ctrl-C)"
    if kind == "exception":
        return f"ended by an exception: {detail}"
    if reason.startswith("signal "):
        return f"killed by {reason.removeprefix('signal ')}"
    if reason == "stop":
        return "ended: the program stopped the recording"
    code = reason.removeprefix("_exit").strip() if reason.startswith("_exit") else ""
    return f"ended with code {code}" if code else "ended"


def _ago(seconds: float | None) -> str:
    if seconds is None:
        return "unknown"
    if seconds < 120:
        return f"{seconds:.0f} s ago"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min ago"
    return f"{seconds / 3600:.0f} h ago"
