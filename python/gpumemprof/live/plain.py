"""What is watched, as plain lines: for a pipe, a log file, or a machine without Textual."""

from __future__ import annotations

import textwrap
import time

from gpumemprof.live.figures import Row, rows, shown_bytes, shown_count, shown_percent
from gpumemprof.live.ranks import ranks_line, silence_line
from gpumemprof.live.watcher import Watcher
from gpumemprof.printable import printable

__all__ = ["PlainLines"]

_COLUMNS = 80


def _card(row: Row) -> str:
    if row.filled is None:
        return ""
    room = shown_bytes(row.headroom_bytes)
    return f"{shown_percent(row.filled)} of the card, {room} headroom; "


def _figures(row: Row, is_once: bool) -> str:
    if not row.device:
        return "no memory yet"
    words = [f"allocated {shown_bytes(row.device['allocated_bytes'])}"]
    since = "peak" if is_once else "peak since the last line"
    words.append(f"{since} {shown_bytes(row.device['recent_peak_allocated_bytes'])}")
    if row.device["has_pool"]:
        words.append(f"reserved {shown_bytes(row.device['reserved_bytes'])}")
    outside = row.bytes_of("outside_pool_bytes")
    if outside is not None:
        words.append(f"outside the pool {shown_bytes(outside)}")
    if row.step is not None:
        words.append(f"step {row.step}")
    rate = row.recording.events_per_second
    if rate is not None:
        words.append(f"{shown_count(rate)} events/s")
    return _card(row) + ", ".join(words)


def _is_running(row: Row) -> bool:
    return not row.recording.state.is_over


class PlainLines:
    """One line for each device, and one for each notice, ending or note when it is new."""

    def __init__(self, watcher: Watcher, is_once: bool = False) -> None:
        self._watcher = watcher
        self._is_once = is_once
        self._said: set[tuple[str, str]] = set()

    def lines(self) -> list[str]:
        """The next lines; call once after each look."""
        clock = "" if self._is_once else time.strftime("%H:%M:%S ")
        found = [f"{clock}{line}" for line in self._new("", self._watcher.why_none())]
        for row in rows(self._watcher.recordings):
            where = " ".join(filter(None, [row.name, row.device.get("device")]))
            if not row.device and row.recording.state.name in ("starting", "unreadable"):
                continue  # the sentence below says so
            if not row.recording.state.is_over or (row.key[0], "over") not in self._said:
                found.append(f"{clock}{where}: {_figures(row, self._is_once)}")
        running = [row for row in rows(self._watcher.recordings) if _is_running(row)]
        together = [ranks_line(running), silence_line(running)]
        found += [f"{clock}{line}" for line in together if line]
        for recording in self._watcher.recordings:
            name = Row(recording, {}).name
            key = str(recording.path)
            sentences = [_sentence(notice) for notice in recording.report.get("notices", [])]
            sentences += recording.notes
            if recording.state.text != "recording":
                sentences.append(recording.state.text)
            found += [
                clock + (line if line.startswith(f"{name}: ") else f"{name}: {line}")
                for line in self._new(key, sentences)
            ]
            if recording.state.is_over:
                self._said.add((key, "over"))
        found = [printable(line) for line in found]
        if not self._is_once:
            return found
        wrapped = [textwrap.wrap(line, _COLUMNS, subsequent_indent="  ") for line in found]
        return [line for lines in wrapped for line in lines]

    def _new(self, key: str, sentences: list[str]) -> list[str]:
        """Those that have not been said, apart from their numbers."""
        new = []
        for sentence in sentences:
            shape = key, "".join(char for char in sentence if not char.isdigit())
            if shape not in self._said:
                self._said.add(shape)
                new.append(sentence)
        return new


def _sentence(notice: dict[str, str | None]) -> str:
    device = f"{notice['device']} " if notice["device"] else ""
    return f"{notice['severity']}: {device}{notice['text']}"
