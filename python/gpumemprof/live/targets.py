"""What the user asked to watch: files, folders and processes, and the recordings they stand for."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from pathlib import Path

from gpumemprof.errors import InputError, MissingFileError, UsageError
from gpumemprof.live import system_processes

__all__ = ["FileTarget", "FolderTarget", "ProcessTarget", "Target", "find_target"]

_SUFFIX = ".gmp"
# A recording in a folder that was changed before this is over: nobody watches it.
_RECENT_SECONDS = 60.0
_HOW_TO_START = "start it with: gpumemprof run SCRIPT"


class Target:
    """One word of the command line."""

    name: str

    @property
    def grows(self) -> bool:
        """Whether recordings may come that are not there yet."""
        return False

    def recordings(self) -> Sequence[Path]:
        """Those that are there now, in no order."""
        raise NotImplementedError

    def why_none(self) -> str:
        """One sentence for as long as there is no recording."""
        raise NotImplementedError


class FileTarget(Target):
    """One recording: a file, or a folder of chapters."""

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self.path = path

    def recordings(self) -> Sequence[Path]:
        """The recording."""
        return [self.path]

    def why_none(self) -> str:
        """It was there when the watch began."""
        return f"{self.name} is gone"


class AwaitedFile(FileTarget):
    """The recording of a program that has just been started; its file comes soon."""

    def recordings(self) -> Sequence[Path]:
        """The recording, once it is there."""
        return [self.path] if self.path.exists() else []

    def why_none(self) -> str:
        """The program starts."""
        return "the program is starting"


def _has_chapters(folder: Path) -> bool:
    return any(folder.glob(f"chapter-*{_SUFFIX}"))


def _is_recording(path: Path) -> bool:
    """Whether it is one, by its name: a file, no pipe or device, or a folder with chapters."""
    return path.suffix == _SUFFIX and (path.is_file() or _has_chapters(path))


class FolderTarget(Target):
    """All recordings in a folder that are being written, and those that come later."""

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self.path = path
        self._over: set[Path] = set()
        self._over = {path for path in self._all() if not self._is_recent(path)}

    def _all(self) -> list[Path]:
        with contextlib.suppress(OSError):
            return [path for path in self.path.iterdir() if _is_recording(path)]
        return []

    @staticmethod
    def _is_recent(path: Path) -> bool:
        try:
            changed = path.stat().st_mtime
        except OSError:
            return False
        return changed > time.time() - _RECENT_SECONDS or bool(
            system_processes.is_written(path, None)
        )

    def recordings(self) -> Sequence[Path]:
        """Those that have changed since the watch began, or shortly before."""
        self._over = {path for path in self._over if not self._is_changed(path)}
        return [path for path in self._all() if path not in self._over]

    @staticmethod
    def _is_changed(path: Path) -> bool:
        try:
            return path.stat().st_mtime > time.time() - _RECENT_SECONDS
        except OSError:
            return False

    @property
    def grows(self) -> bool:
        """A program may start at any time."""
        return True

    def why_none(self) -> str:
        """Whether there are some that are over."""
        if self._over:
            count = len(self._over)
            are = "1 recording is" if count == 1 else f"{count} recordings are"
            return f"{self.name}: no recording is being written; {are} over: watch one by its name"
        return f"{self.name}: no recording (.gmp) yet; start a program there with: gpumemprof run"


class ProcessTarget(Target):
    """A process and those it started: the recordings they write."""

    def __init__(self, pid: int) -> None:
        self.name = str(pid)
        self.pid = pid
        self._known: dict[Path, None] = {}

    def recordings(self) -> Sequence[Path]:
        """Those that any of them has had open."""
        for pid in system_processes.descendants(self.pid):
            for path in system_processes.recordings_of(pid):
                self._known.setdefault(path)
        return list(self._known)

    @property
    def grows(self) -> bool:
        """It may start others as long as it runs."""
        return system_processes.is_running(self.pid)

    def why_none(self) -> str:
        """Whether it is recorded at all."""
        if not system_processes.is_running(self.pid):
            return f"process {self.pid} has ended, and left no recording"
        return f"process {self.pid} has not used torch yet"


def find_target(word: str) -> Target:
    """What a word of the command line stands for.

    Raises:
        UsageError: it is a process that is not recorded.
        MissingFileError: there is no such file.
        InputError: the file is something else.
    """
    path = Path(word)
    if word.isdecimal() and not path.exists():
        return _find_process(int(word))
    if path.is_dir():
        is_recording = _has_chapters(path) or (path.suffix == _SUFFIX and not any(path.iterdir()))
        return FileTarget(path) if is_recording else FolderTarget(path)
    if not path.exists():
        raise MissingFileError("no such file", "bad_input", word, "check the path")
    if not path.is_file():
        raise InputError("not a file", "bad_input", word, "name a recording, a folder or a process")
    return FileTarget(path)


def _find_process(pid: int) -> ProcessTarget:
    if not system_processes.is_running(pid):
        raise UsageError(f"there is no process {pid}", "usage", "", _HOW_TO_START)
    target = ProcessTarget(pid)
    if target.recordings() or system_processes.is_started_by_run(pid):
        return target
    if not system_processes.can_be_looked_into(pid):
        raise UsageError(
            f"process {pid} belongs to another user", "usage", "", "name its recording instead"
        )
    raise UsageError(f"process {pid} is not recorded", "usage", "", _HOW_TO_START)
