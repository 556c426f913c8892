"""The figures of one row of the screen, as text and numbers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpumemprof import _core
from gpumemprof.live.watched import WatchedRecording
from gpumemprof.printable import printable

__all__ = ["UNKNOWN", "Row", "rows", "shown_bytes", "shown_count", "shown_percent"]

UNKNOWN = "\u2013"
_MOST_IN_FULL = 100_000


@dataclass
class Row:
    """One device of one recording; a recording without devices has one row too.

    Attributes:
        device: the device's part of the report; empty if nothing is known of one.
        filled: the share of the card that is taken; None if that is unknown.
        headroom_bytes: what the process can still take from the card; None if unknown.
    """

    recording: WatchedRecording
    device: dict[str, Any]

    @property
    def key(self) -> tuple[str, str]:
        """Identifies the row from look to look."""
        return str(self.recording.path), self.device.get("device", "")

    @property
    def program(self) -> str:
        """The script, without its folder and arguments; the file if it is unknown."""
        command = self.recording.report.get("command")
        if not command:
            return printable(self.recording.path.name)
        name = command.split()[0]
        return "python -c" if name == "-c" else printable(Path(name).name)

    @property
    def pid(self) -> int | None:
        """Of the process."""
        pid: int | None = self.recording.report.get("pid")
        return pid

    @property
    def rank(self) -> int | None:
        """In a distributed run."""
        rank: int | None = self.recording.report.get("rank")
        return rank

    @property
    def name(self) -> str:
        """Program, process and rank."""
        words = [self.program]
        if self.rank is not None:
            words.append(f"rank {self.rank}")
        elif self.pid is not None:
            words.append(str(self.pid))
        return " ".join(words)

    def bytes_of(self, name: str) -> int | None:
        """A figure of the device; None if unknown."""
        # Without a pool, nothing is reserved beyond what is allocated.
        if name == "reserved_bytes" and not self.device.get("has_pool", True):
            return None
        value: int | None = self.device.get(name)
        return value

    @property
    def filled(self) -> float | None:
        """The share of the card that is taken, by all processes."""
        used, total = self.bytes_of("used_now_bytes"), self.bytes_of("total_bytes")
        return used / total if used is not None and total else None

    @property
    def headroom_bytes(self) -> int | None:
        """What the pool can still take: from the card, and below the program's own limit."""
        used, total = self.bytes_of("used_now_bytes"), self.bytes_of("total_bytes")
        if used is None or total is None:
            return None
        free = max(0, total - used)
        limit = self.bytes_of("limit_bytes")
        return free if limit is None else min(free, max(0, limit - self.device["reserved_bytes"]))

    @property
    def step(self) -> int | None:
        """The step that is running."""
        steps = self.device.get("steps")
        return int(steps[-1]["step"]) if steps else None


def rows(recordings: list[WatchedRecording]) -> list[Row]:
    """All rows, in the order of the recordings."""
    found = []
    for recording in recordings:
        devices = recording.report.get("devices") or [{}]
        found += [Row(recording, device) for device in devices]
    return found


def shown_bytes(size_bytes: float | None) -> str:
    """As everywhere else in gpumemprof.

    >>> shown_bytes(3 << 20)
    '3.00 MiB'
    """
    return UNKNOWN if size_bytes is None else _core.format_bytes(int(size_bytes))


def shown_percent(share: float | None) -> str:
    """With one digit after the point.

    >>> shown_percent(0.6123)
    '61.2 %'
    """
    return UNKNOWN if share is None else f"{share * 100:.1f} %"


def shown_count(count: float | None) -> str:
    """Short enough for a column: 12,345 but 1.2 M.

    >>> shown_count(1_234_567)
    '1.2 M'
    """
    if count is None:
        return UNKNOWN
    if count < _MOST_IN_FULL:
        return f"{count:,.0f}"
    for unit, size in (("k", 1e3), ("M", 1e6), ("G", 1e9)):
        if count < size * 1000 or unit == "G":
            value = count / size
            return f"{value:.0f} {unit}" if value >= 100 else f"{value:.1f} {unit}"
    return UNKNOWN
