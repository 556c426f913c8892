"""Finds the files that a user named: summaries, recordings, folders of them, patterns and URLs."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gpumemprof.errors import MissingFileError
from gpumemprof.ranks.folders import RECORDING_SUFFIX, is_recording_folder
from gpumemprof.ranks.reading import places
from gpumemprof.recorder.rank_summary import SUFFIX

__all__ = ["Pair", "find_files"]

_CHAPTER = re.compile(r"(.+)/chapter-\d{6,}\.gmp$")


@dataclass
class Pair:
    """A recording and its summary; one of them may be missing."""

    recording: str | None = None
    summary: str | None = None
    recording_bytes: int | None = None
    """The size of a recording elsewhere; None if it is not known, or here."""


def find_files(words: Sequence[str]) -> list[Pair]:
    """The files that the words of the command line stand for, each recording with its summary.

    Raises:
        MissingFileError: a word names nothing.
    """
    pairs: dict[str, Pair] = {}
    for word in words:
        if places.is_url(word):
            _add_remote(word, pairs)
        else:
            _add_local(places.local_path(word), pairs)
    return [pairs[key] for key in sorted(pairs)]


def _add_local(word: str, pairs: dict[str, Pair]) -> None:
    path = Path(word)
    if path.is_dir() and not is_recording_folder(path):
        _add_folder(path, pairs)
        return
    if path.exists():
        _add(path, pairs)
        return
    names = sorted(glob.glob(word, recursive=True))  # noqa: PTH207
    if not names:
        raise MissingFileError("no such file or folder", "bad_input", word, "check the path")
    for name in names:
        _add_named(Path(name), pairs)


def _add_named(path: Path, pairs: dict[str, Pair]) -> None:
    if path.is_dir() and not is_recording_folder(path):
        _add_folder(path, pairs)
    elif path.name.endswith((RECORDING_SUFFIX, SUFFIX)):
        _add(path, pairs)


def _add_folder(folder: Path, pairs: dict[str, Pair]) -> None:
    """Also what is in the folders below: a job may have one for each host."""
    for place, folders, files in os.walk(folder):
        # Both of a pair are in the same folder, so nothing has to be looked for.
        for name in [*files, *folders]:
            if name.startswith("."):
                continue
            if name.endswith(SUFFIX):
                path = os.path.join(place, name)  # noqa: PTH118
                pairs.setdefault(path[: -len(SUFFIX)], Pair()).summary = path
            elif name.endswith(RECORDING_SUFFIX):
                path = os.path.join(place, name)  # noqa: PTH118
                pairs.setdefault(path, Pair()).recording = path
        folders[:] = [name for name in folders if not name.endswith(RECORDING_SUFFIX)]


def _add(path: Path, pairs: dict[str, Pair]) -> None:
    """One of a pair; the other is looked for beside it."""
    name = str(path)
    if name.endswith(SUFFIX):
        recording = name[: -len(SUFFIX)]
        pair = pairs.setdefault(recording, Pair())
        pair.summary = name
        if pair.recording is None and Path(recording).exists():
            pair.recording = recording
        return
    pair = pairs.setdefault(name, Pair())
    pair.recording = name
    if pair.summary is None and Path(name + SUFFIX).exists():
        pair.summary = name + SUFFIX


def _add_remote(url: str, pairs: dict[str, Pair]) -> None:
    """Only what is listed: looking for each other half would be a request for each file."""
    listed = places.list_files(url)
    for file, size in listed:
        if file.rpartition("/")[2].startswith("."):
            continue
        chapter = _CHAPTER.match(file)
        if chapter is not None:
            pairs.setdefault(chapter[1], Pair()).recording = chapter[1]
        elif file.endswith(SUFFIX):
            pairs.setdefault(file[: -len(SUFFIX)], Pair()).summary = file
        elif file.endswith(RECORDING_SUFFIX) or len(listed) == 1:
            pair = pairs.setdefault(file, Pair())
            pair.recording, pair.recording_bytes = file, size
