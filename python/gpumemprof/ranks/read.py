"""Finds the ranks that a user named: summaries, recordings, folders of them, or a pattern."""

from __future__ import annotations

import glob
import multiprocessing
import os
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gpumemprof import _core
from gpumemprof.errors import Error, InputError, MissingFileError
from gpumemprof.ranks.folders import RECORDING_SUFFIX, is_recording_folder
from gpumemprof.ranks.summary import RankSummary, parse_head, read_column
from gpumemprof.recorder.rank_summary import SUFFIX

__all__ = ["Found", "every_column", "find_files", "read_ranks"]

_FEWEST_FOR_WORKERS = 1024
_MOST_WORKERS = 8
_CHUNK = 256


@dataclass
class Found:
    """What was read, and what could not be."""

    ranks: list[RankSummary] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """A sentence for each file that could not be read."""
    notes: list[str] = field(default_factory=list)
    without_recording: int = 0
    without_summary: int = 0


@dataclass
class _Pair:
    """A recording and its summary; one of them may be missing."""

    recording: Path | None = None
    summary: Path | None = None


def find_files(words: Sequence[str]) -> list[_Pair]:
    """The files that the words of the command line stand for, each recording with its summary.

    Raises:
        MissingFileError: a word names nothing.
    """
    pairs: dict[str, _Pair] = {}
    for word in words:
        path = Path(word)
        if path.is_dir() and not is_recording_folder(path):
            _add_folder(path, pairs)
        elif path.exists():
            _add(path, pairs)
        else:
            names = sorted(glob.glob(word, recursive=True))  # noqa: PTH207
            if not names:
                raise MissingFileError(
                    "no such file or folder", "bad_input", word, "check the path"
                )
            for name in names:
                _add_named(Path(name), pairs)
    return [pairs[key] for key in sorted(pairs)]


def _add_named(path: Path, pairs: dict[str, _Pair]) -> None:
    if path.is_dir() and not is_recording_folder(path):
        _add_folder(path, pairs)
    elif path.name.endswith((RECORDING_SUFFIX, SUFFIX)):
        _add(path, pairs)


def _add_folder(folder: Path, pairs: dict[str, _Pair]) -> None:
    """Also what is in the folders below: a job may have one for each host."""
    for place, folders, files in os.walk(folder):
        for name in [*files, *folders]:
            if not name.startswith(".") and name.endswith((RECORDING_SUFFIX, SUFFIX)):
                _add(Path(place, name), pairs)
        folders[:] = [name for name in folders if not name.endswith(RECORDING_SUFFIX)]


def _add(path: Path, pairs: dict[str, _Pair]) -> None:
    """One of a pair; the other is looked for beside it."""
    if path.name.endswith(SUFFIX):
        pair = pairs.setdefault(str(path)[: -len(SUFFIX)], _Pair())
        pair.summary = path
        recording = Path(str(path)[: -len(SUFFIX)])
        if pair.recording is None and recording.exists():
            pair.recording = recording
        return
    pair = pairs.setdefault(str(path), _Pair())
    pair.recording = path
    summary = Path(str(path) + SUFFIX)
    if pair.summary is None and summary.exists():
        pair.summary = summary


Progress = Callable[[int, int], None]


def read_ranks(words: Sequence[str], progress: Progress | None = None) -> Found:
    """Read all of them; a file that cannot be read is noted and left out.

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
    stale = 0
    for read in _read_all(pairs, progress):
        stale += read.is_stale
        if read.summary is None:
            found.problems.append(read.problem)
            continue
        found.ranks.append(read.summary)
        # What is of no rank, such as a data loader, has no summary.
        if read.summary.rank is not None:
            found.without_recording += read.pair.recording is None
            found.without_summary += read.pair.summary is None
    if stale:
        which = "a summary is" if stale == 1 else f"{stale:,} summaries are"
        found.notes.append(f"{which} older than the recording, which was read instead")
    return found


@dataclass
class _Read:
    pair: _Pair
    summary: RankSummary | None = None
    problem: str = ""
    is_stale: bool = False


def _read_all(pairs: list[_Pair], progress: Progress | None) -> Iterator[_Read]:
    """In order; many of them by as many processes as there are processors."""
    workers = min(os.cpu_count() or 1, _MOST_WORKERS)
    if len(pairs) < _FEWEST_FOR_WORKERS or workers < 2:
        for done, pair in enumerate(pairs):
            if progress is not None:
                progress(done, len(pairs))
            yield _read_one(pair)
        return
    chunks = [pairs[start : start + _CHUNK] for start in range(0, len(pairs), _CHUNK)]
    with multiprocessing.get_context("fork").Pool(workers) as pool:
        for number, chunk in enumerate(pool.imap(_read_chunk, chunks)):
            if progress is not None:
                progress(number * _CHUNK, len(pairs))
            yield from chunk


def _read_chunk(pairs: list[_Pair]) -> list[_Read]:
    return [_read_one(pair) for pair in pairs]


def _read_one(pair: _Pair) -> _Read:
    try:
        summary, is_stale = _read_pair(pair)
    except Error as error:
        return _Read(pair, problem=str(error))
    return _Read(pair, summary, is_stale=is_stale)


def _read_pair(pair: _Pair) -> tuple[RankSummary, bool]:
    """The summary, and whether the one beside the recording was too old."""
    recording = None if pair.recording is None else str(pair.recording)
    if pair.summary is None:
        return _from_recording(str(recording)), False
    try:
        summary, size = _from_file(pair.summary, recording)
    except InputError:
        if recording is None:
            raise
        return _from_recording(recording), True
    if pair.recording is not None and pair.recording.is_file():
        try:
            is_stale = pair.recording.stat().st_size != size
        except OSError:
            is_stale = False
        if is_stale:
            return _from_recording(str(recording)), True
    return summary, False


def _from_recording(path: str) -> RankSummary:
    lines = _core.rank_summary(os.fsencode(path)).splitlines()
    summary = parse_head(lines[0], path, path, False)
    _take_columns(summary, lines[1:])
    return summary


def _from_file(path: Path, recording: str | None) -> tuple[RankSummary, int]:
    try:
        with path.open("rb") as file:
            line = file.readline()
            summary = parse_head(line, str(path), recording, True)
            _take_columns(summary, file)
            return summary, _recording_bytes(line)
    except OSError as error:
        raise InputError(
            f"cannot be read: {error.strerror}", "bad_input", str(path), "check the file"
        ) from None
    except InputError:
        raise
    except (ValueError, KeyError, TypeError, OverflowError):
        raise InputError(
            "a damaged summary of a rank",
            "bad_input",
            str(path),
            "delete it; the recording beside it is read instead",
        ) from None


def _recording_bytes(line: bytes) -> int:
    """Without parsing the line again: it is among the first fields."""
    key = b'"recording_bytes":'
    start = line.index(key) + len(key)
    return int(line[start : line.index(b",", start)])


_steps_text, _steps_column = b"", array("q")


def _take_columns(summary: RankSummary, lines: Iterable[bytes]) -> None:
    """What holds the memory, and the columns that ranks are compared by: they come first."""
    global _steps_text, _steps_column
    for line in lines:
        if not line.startswith(b'{"device":%d,' % summary.device_row):
            continue
        if not summary.held_line:
            summary.held_line = line
            continue
        # Most ranks have the same steps: one column serves them all.
        if line == _steps_text:
            summary.steps = _steps_column
            continue
        _, name, values = read_column(line)
        if name == "step":
            summary.steps = _steps_column = values
            _steps_text = line
        elif name == "peak_bytes":
            summary.step_peaks = values
            break
    if not len(summary.steps) == len(summary.step_peaks) == summary.step_count:
        raise ValueError("the columns are cut off")


def every_column(summary: RankSummary) -> dict[str, array[int]]:
    """All columns of the steps of a rank that was read; read again."""
    if summary.has_file:
        lines = Path(summary.path).read_bytes().splitlines()
    else:
        lines = _core.rank_summary(os.fsencode(summary.path)).splitlines()
    columns = {}
    for line in lines[1:]:
        if line.startswith(b'{"device":%d,"column"' % summary.device_row):
            _, name, values = read_column(line)
            columns[name] = values
    return columns
