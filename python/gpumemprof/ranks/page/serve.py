"""``gpumemprof view FOLDER``: what the local server shows."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gpumemprof._data import ranks_page_path
from gpumemprof.errors import Error, UsageError
from gpumemprof.ranks.command import fail, read_report
from gpumemprof.ranks.folders import is_recording_folder
from gpumemprof.ranks.page.packed import packed_page
from gpumemprof.ranks.read import find_files
from gpumemprof.ranks.report import RanksReport

__all__ = ["Prepared", "prepare"]

# Loopback is fast: only the browser's memory counts.
_MOST_BYTES = 16_000_000


@dataclass
class Prepared:
    """The words for the native command, and what it shows beside them."""

    words: list[str]
    ranks: tuple[bytes, bytes, list[bytes]] | None
    """The page, its report, and the recordings of the ranks; None: one recording is shown."""


def prepare(words: Sequence[str]) -> Prepared | int:
    """Read the ranks of the folder among these words; or the exit code, if that fails."""
    try:
        return _prepare(words)
    except Error as error:
        return fail(error)


def _prepare(words: Sequence[str]) -> Prepared:
    named = [
        word
        for word, before in zip(words, ["", *words])
        if not word.startswith("-") and before != "--port"
    ]
    folders = [word for word in named if Path(word).is_dir()]
    folder = next(word for word in folders if not is_recording_folder(Path(word)))
    others = [word for word in named if word != folder]
    if others:
        raise UsageError(
            f"a folder of ranks is viewed alone, without {others[0]}",
            "usage",
            "",
            "name only the folder, or only recordings",
        )
    pairs = find_files([folder])
    if len(pairs) == 1 and pairs[0].recording is not None:
        # One recording needs no page about ranks.
        alone = str(pairs[0].recording)
        return Prepared([alone if word == folder else word for word in words], None)
    report = read_report([folder])
    packed = packed_page(report, _MOST_BYTES)
    return Prepared(list(words), (os.fsencode(ranks_page_path()), packed, _recordings(report)))


def _recordings(report: RanksReport) -> list[bytes]:
    """In the order in which the page counts ranks."""
    return [os.fsencode(one.recording or "") for job in report.jobs for one in job.job.ranks]
