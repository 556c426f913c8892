"""Stacks of all allocations in a scope: a separate recording in a temporary file.

An event takes a few bytes on disk, so a long scope is cheap to keep; the file is read on demand.
It is deleted together with its result.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpumemprof import _core
from gpumemprof.read.recording import Recording, load
from gpumemprof.read.report import Frame
from gpumemprof.recorder.active import ActiveRecording

__all__ = ["Allocation", "ScopeRecording"]

_MOST_ALLOCATIONS = 100_000


@dataclass(frozen=True)
class Allocation:
    """One allocation made in a scope.

    >>> Allocation(0x1000, 512, 400, 1.0, None, []).is_live
    True
    """

    address: int
    size_bytes: int
    """The size of the block: what it takes from the pool."""
    requested_bytes: int
    """The size that was requested."""
    allocated_at: float | None
    """Seconds since 1970."""
    freed_at: float | None
    stack: list[Frame]
    """Innermost first; empty where there was no Python."""

    @property
    def is_live(self) -> bool:
        """Whether the allocation was still live when the scope ended.

        >>> Allocation(0x1000, 512, 400, 1.0, 2.0, []).is_live
        False
        """
        return self.freed_at is None


def _seconds(time_ns: int | None) -> float | None:
    return None if time_ns is None else time_ns / 1e9


def _remove(path: str, pid: int) -> None:
    # A forked child must not touch its parent's files.
    if os.getpid() == pid:
        with contextlib.suppress(OSError):
            Path(path).unlink()


class ScopeRecording:
    """Records from its creation until `stop`."""

    def __init__(self, is_cpu: bool, device_name: str) -> None:
        self._device_name = device_name
        file, path = tempfile.mkstemp(prefix="gpumemprof-", suffix=".gmp")
        os.close(file)
        self._path = path
        weakref.finalize(self, _remove, path, os.getpid())
        self._active = ActiveRecording(path, stacks=True, cpu=is_cpu, overwrite=True, is_brief=True)
        self._recording: Recording | None = None
        self._whole: _core.RecordingHandle | None = None
        self._count = 0

    def stop(self, allocations: int | None) -> None:
        """End it; the scope made this many allocations, and any before them were our own."""
        self._active.stop()
        self._count = _MOST_ALLOCATIONS if allocations is None else allocations

    def load(self) -> Recording:
        if self._recording is None:
            self._recording = load(self._path)
        return self._recording

    def _handle(self) -> _core.RecordingHandle:
        """All of it: single allocations are asked for."""
        if self._whole is None:
            handle = self.load()._handle
            if isinstance(handle, _core.LongHandle):
                handle = _core.open(os.fsencode(self._path))
            self._whole = handle
        return self._whole

    def _row(self) -> int | None:
        names = self._handle().device_names
        return names.index(self._device_name) if self._device_name in names else None

    def _stack(self, number: int | None) -> list[Frame]:
        if number is None:
            return []
        return [Frame(*frame) for frame in self._handle().stack(number)]

    def allocations(self) -> list[Allocation]:
        row = self._row()
        if row is None:
            return []
        stacks: dict[int | None, list[Frame]] = {}
        made = []
        most = min(self._count, _MOST_ALLOCATIONS)
        for found in self._handle().allocation_rows(row, most):
            stack = found.stack
            if stack not in stacks:
                stacks[stack] = self._stack(stack)
            made.append(
                Allocation(
                    found.address,
                    found.size_bytes,
                    found.requested_bytes,
                    _seconds(found.allocated_ns),
                    _seconds(found.freed_ns),
                    stacks[stack],
                )
            )
        return made

    def stack_at_peak(self) -> str | None:
        """The stack of the allocation that reached the peak, innermost last; None if none did."""
        row = self._row()
        if row is None or self._count == 0:
            return None
        event = self.load().devices[row].peak.event_index
        if event is None:
            return None
        frames = self._stack(self._handle().event_stack(row, event))
        return format_stack(frames)


def format_stack(frames: list[Any]) -> str | None:
    """Formatted like a Python traceback, without the source lines."""
    lines = [f'  File "{f.file}", line {f.line}, in {f.name}' for f in reversed(frames)]
    return "\n".join(lines) or None
