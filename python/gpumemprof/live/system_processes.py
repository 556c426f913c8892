"""What Linux says about processes: whether they live, their children, the recordings they write."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

__all__ = ["descendants", "is_running", "is_started_by_run", "is_written", "recordings_of"]

_PROC = Path("/proc")
_SUFFIX = ".gmp"
_KEPT_SECONDS = 1.0
_written: tuple[float, set[Path]] = (float("-inf"), set())


def is_running(pid: int) -> bool:
    """Whether it exists and has not ended; a zombie has."""
    try:
        status = (_PROC / str(pid) / "stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] not in ("Z", "X")


def _parents() -> dict[int, int]:
    parents = {}
    for entry in _PROC.iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError, IndexError):
                # The name of the program, in brackets, may hold anything.
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                parents[int(entry.name)] = int(fields[1])
    return parents


def _children(pid: int) -> list[int] | None:
    """Those that Linux lists for each of its threads; None if it does not list them."""
    found: list[int] = []
    try:
        for task in (_PROC / str(pid) / "task").iterdir():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                found += map(int, (task / "children").read_text().split())
        if not (_PROC / "self" / "task" / str(os.getpid()) / "children").exists():
            return None
    except FileNotFoundError:
        return []  # It has ended.
    except OSError:
        return None
    return found


def descendants(pid: int) -> list[int]:
    """The process itself, its children, theirs, and so on."""
    family = [pid]
    for member in family:
        children = _children(member)
        if children is None:
            return _descendants_of_all(pid)
        family += [child for child in children if child not in family]
    return family


def _descendants_of_all(pid: int) -> list[int]:
    """The same, from the parents of all processes of the machine, which takes longer."""
    parents = _parents()
    family = [pid]
    for member in family:
        family += [child for child, parent in parents.items() if parent == member]
    return family


def recordings_of(pid: int) -> list[Path]:
    """The recordings that the process writes, those in chapters by their folder."""
    found = []
    with contextlib.suppress(OSError):
        for descriptor in (_PROC / str(pid) / "fd").iterdir():
            with contextlib.suppress(OSError):
                target = descriptor.readlink()
                if target.suffix == _SUFFIX and _is_for_writing(pid, descriptor.name):
                    is_chapter = target.name.startswith("chapter-")
                    found.append(target.parent if is_chapter else target)
    return sorted(set(found))


def _is_for_writing(pid: int, descriptor: str) -> bool:
    """Not only for reading, as this command itself has it open."""
    for line in (_PROC / str(pid) / "fdinfo" / descriptor).read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "flags":
            return int(value, 8) & (os.O_WRONLY | os.O_RDWR) != 0
    return False


def can_be_looked_into(pid: int) -> bool:
    """Whether this user may see what the process has open."""
    return os.access(_PROC / str(pid) / "fd", os.R_OK | os.X_OK)


def is_written(path: Path, pid: int | None) -> bool | None:
    """Whether a process still has the recording open; None if that cannot be seen.

    Args:
        path: the recording.
        pid: the process that wrote it, as the recording says. It is looked at first; in another
            container its number means nothing, so all others follow.
    """
    whole = path.resolve()
    is_hidden = False
    if pid is not None and is_running(pid):
        if whole in recordings_of(pid):
            return True
        is_hidden = not can_be_looked_into(pid)
    if is_hidden:
        return None
    return whole in _written_by_anyone()


def _written_by_anyone() -> set[Path]:
    """What all processes write; many recordings may ask at once, so an answer is kept a while."""
    global _written
    asked_at, found = _written
    if time.monotonic() - asked_at > _KEPT_SECONDS:
        numbers = [int(entry.name) for entry in _PROC.iterdir() if entry.name.isdecimal()]
        found = {path for number in numbers for path in recordings_of(number)}
        _written = time.monotonic(), found
    return found


def is_started_by_run(pid: int) -> bool:
    """Whether ``gpumemprof run`` started it, so that a recording may still come."""
    with contextlib.suppress(OSError):
        variables = (_PROC / str(pid) / "environ").read_bytes().split(b"\0")
        return any(variable.startswith(b"GPUMEMPROF_RUN=") for variable in variables)
    return False
