"""Reads the ranks that a user named, from their summaries, and from recordings without one."""

from __future__ import annotations

import contextlib
import os
import time
from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from gpumemprof import _core
from gpumemprof.errors import Error, InputError
from gpumemprof.ranks.reading import places
from gpumemprof.ranks.reading.find import Pair, find_files
from gpumemprof.ranks.reading.work import in_processes
from gpumemprof.ranks.summary import RankSummary, parse_head, read_column, read_rows
from gpumemprof.regular_file import open_regular

if TYPE_CHECKING:
    from gpumemprof.ranks.reading.work import Workers

__all__ = [
    "Found",
    "Progress",
    "every_column",
    "find_files",
    "read_one",
    "read_ranks",
    "summary_text",
]

_CHUNK = 256
# Reading a recording takes seconds; many of them are shared out one by one.
_RECORDINGS_CHUNK = 1
# A recording that was written to a moment ago is still being written.
_RUNNING_SECONDS = 30.0


@dataclass
class Found:
    """What was read, and what could not be."""

    ranks: list[RankSummary] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """A sentence for each file that could not be read."""
    notes: list[str] = field(default_factory=list)
    without_recording: int = 0
    without_summary: int = 0


Progress = Callable[[int, int], None]


def read_ranks(
    words: Sequence[str], progress: Progress | None = None, workers: Workers | None = None
) -> Found:
    """Read all of them; a file that cannot be read is noted and left out.

    Args:
        words: folders, files, patterns or URLs.
        progress: called with how many are read, and how many there are.
        workers: what reads them; processes of this machine if not given.

    Raises:
        InputError: there is nothing to read.
    """
    pairs = find_files(words)
    if not pairs:
        raise InputError(
            "no recordings and no summaries of ranks here",
            "bad_input",
            ", ".join(words),
            "record each rank: torchrun ... -m gpumemprof run SCRIPT",
        )
    found = Found()
    stale = running = done = 0
    for chunk in (workers or in_processes)(_read_chunk, _chunks(pairs)):
        for read in chunk:
            stale += read.is_stale
            running += read.is_running
            _take(read, found)
        done += len(chunk)
        if progress is not None:
            progress(done, len(pairs))
    if stale:
        which = "a summary is" if stale == 1 else f"{stale:,} summaries are"
        found.notes.append(f"{which} older than the recording, which was read instead")
    if running:
        which = "one rank is" if running == 1 else f"{running:,} ranks are"
        found.notes.append(
            f"{which} still running: what follows is of the last summary, up to a minute ago"
        )
    return found


def _chunks(pairs: list[Pair]) -> list[list[Pair]]:
    """Summaries by the hundred, recordings one by one; in order."""
    chunks: list[list[Pair]] = []
    was_summary = False
    for pair in pairs:
        is_summary = pair.summary is not None
        most = _CHUNK if is_summary else _RECORDINGS_CHUNK
        if not chunks or was_summary != is_summary or len(chunks[-1]) >= most:
            chunks.append([])
        chunks[-1].append(pair)
        was_summary = is_summary
    return chunks


@dataclass
class _Read:
    has_recording: bool
    has_summary: bool
    summary: RankSummary | None = None
    problem: str = ""
    is_stale: bool = False
    is_running: bool = False


def _take(read: _Read, found: Found) -> None:
    if read.summary is None:
        found.problems.append(read.problem)
        return
    found.ranks.append(_sharing_steps(read.summary))
    # What is of no rank, such as a data loader, has no summary.
    if read.summary.rank is not None:
        found.without_recording += not read.has_recording
        found.without_summary += not read.has_summary


_last_steps = array("q")


def _sharing_steps(summary: RankSummary) -> RankSummary:
    """Most ranks have the same steps: one column serves them all."""
    global _last_steps
    if summary.steps == _last_steps:
        summary.steps = _last_steps
    else:
        _last_steps = summary.steps
    return summary


def _read_chunk(pairs: list[Pair]) -> list[_Read]:
    return [read_one(pair) for pair in pairs]


def read_one(pair: Pair) -> _Read:
    """One rank; what cannot be read becomes a sentence."""
    read = _Read(pair.recording is not None, pair.summary is not None)
    try:
        read.summary = _read_pair(pair, read)
    except Error as error:
        read.problem = str(error)
    return read


def _read_pair(pair: Pair, read: _Read) -> RankSummary:
    if pair.summary is None:
        return _from_recording(str(pair.recording))
    try:
        summary = _from_file(pair.summary, pair.recording)
    except InputError:
        if pair.recording is None:
            raise
        read.is_stale = True
        return _from_recording(pair.recording)
    if pair.recording is None or _recorded_bytes(pair) in (None, summary.recording_bytes):
        return summary
    if summary.ending.is_closed is False and _is_growing(pair.recording):
        read.is_running = True
        return summary
    read.is_stale = True
    return _from_recording(pair.recording)


def _recorded_bytes(pair: Pair) -> int | None:
    """None if it is not known, or in chapters."""
    if pair.recording is None or places.is_url(pair.recording):
        return pair.recording_bytes
    path = Path(pair.recording)
    with contextlib.suppress(OSError):
        return path.stat().st_size if path.is_file() else None
    return None


def _is_growing(recording: str) -> bool:
    if places.is_url(recording):
        return False
    with contextlib.suppress(OSError):
        return time.time() - Path(recording).stat().st_mtime < _RUNNING_SECONDS
    return False


def _from_recording(place: str) -> RankSummary:
    with places.local_copy(place) as path:
        lines = _core.rank_summary(os.fsencode(path)).splitlines()
    summary = parse_head(lines[0], place, place, False)
    _take_columns(summary, lines[1:])
    summary.lines = lines
    return summary


def _from_file(place: str, recording: str | None) -> RankSummary:
    try:
        return _fast(place, recording) or _slow(place, recording)
    except OSError as error:
        raise InputError(
            f"cannot be read: {error.strerror}", "bad_input", place, "check the file"
        ) from None
    except InputError:
        raise
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        raise InputError(
            "a damaged summary of a rank",
            "bad_input",
            place,
            "copy it again from where it was written"
            if recording is None
            else "delete it; the recording beside it is read instead",
        ) from None


def _fast(place: str, recording: str | None) -> RankSummary | None:
    """By our own reader; None if the file is elsewhere, or not as our writer writes it."""
    if places.is_url(place):
        return None
    found = _core.read_summary_file(os.fsencode(place))
    if found is None:
        return None
    line, devices = found
    summary = parse_head(line, place, recording, True)
    if summary.device_row >= len(devices):
        return None
    summary.held_line, steps, peaks = devices[summary.device_row]
    summary.steps.frombytes(steps)
    summary.step_peaks.frombytes(peaks)
    if len(summary.steps) != summary.step_count:
        raise ValueError("the columns are cut off")
    return summary


def _slow(place: str, recording: str | None) -> RankSummary:
    """Any JSON, line by line."""
    if not places.is_url(place):
        # A file of another kind may have any length.
        with open_regular(places.local_path(place)) as file:
            if not file.read(64).lstrip().startswith(b"{"):
                raise ValueError("it does not begin as an object")
    lines = places.read_bytes(place).splitlines()
    if not lines:
        raise ValueError("it is empty")
    summary = parse_head(lines[0], place, recording, True)
    _take_columns(summary, lines[1:])
    return summary


def _take_columns(summary: RankSummary, lines: Iterable[bytes]) -> None:
    """What holds the memory, and the columns that ranks are compared by: they come first."""
    for line, row in read_rows(lines, summary.device_row, ("step", "peak_bytes")):
        if "column" not in row:
            summary.held_line = summary.held_line or line
        elif row["column"] == "step":
            summary.steps = read_column(row)
        else:
            summary.step_peaks = read_column(row)
            break
    if not len(summary.steps) == len(summary.step_peaks) == summary.step_count:
        raise ValueError("the columns are cut off")


def every_column(
    summary: RankSummary, wanted: Sequence[str] | None = None
) -> dict[str, array[int]]:
    """All columns of the steps of a rank that was read, or those that are wanted; read again."""
    lines = summary_text(summary).splitlines()
    return {
        row["column"]: read_column(row)
        for _, row in read_rows(lines[1:], summary.device_row, wanted)
        if "column" in row
    }


def summary_text(summary: RankSummary) -> bytes:
    """The summary as its file has it, or would have it."""
    if summary.has_file:
        return places.read_bytes(summary.path)
    if summary.lines:
        return b"".join(line + b"\n" for line in summary.lines)
    with places.local_copy(summary.path) as path:
        return _core.rank_summary(os.fsencode(path))
