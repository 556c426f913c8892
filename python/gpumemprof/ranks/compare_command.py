"""Runs ``gpumemprof compare`` of two folders of ranks; the core compares two recordings."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gpumemprof.command_line import CommandParser
from gpumemprof.errors import Error, InputError, UsageError
from gpumemprof.estimate.command.page import paragraph
from gpumemprof.estimate.command.table import table
from gpumemprof.estimate.command.units import size
from gpumemprof.printable import printable
from gpumemprof.ranks.command import fail, read_report
from gpumemprof.ranks.folders import is_recording_folder
from gpumemprof.ranks.jobs import names_of
from gpumemprof.ranks.pairs import JobPairs, Limit, RankPair, find_pairs, parse_limit
from gpumemprof.ranks.reading.find import find_files
from gpumemprof.ranks.report import JobReport
from gpumemprof.ranks.sentences import title_sentence
from gpumemprof.ranks.table import rank_name

__all__ = ["as_recordings", "main"]

_BAD_INPUT_CODE = 3
_LIMIT_CODE = 6
_MOST_ROWS = 16


def as_recordings(words: Sequence[str]) -> list[str] | None:
    """The words with a recording for each folder that holds one alone; None if ranks are left."""
    named = []
    for word in words:
        if word.startswith("-") or not _is_folder(word):
            named.append(word)
            continue
        pairs = find_files([word])
        if len(pairs) != 1 or pairs[0].recording is None:
            return None
        named.append(pairs[0].recording)
    return named


def _is_folder(word: str) -> bool:
    return Path(word).is_dir() and not is_recording_folder(Path(word))


def main(arguments: Sequence[str]) -> int:
    """Compare two folders of ranks.

    Args:
        arguments: the words after ``compare``.

    Returns:
        0, or 2 for wrong usage, 3 if not everything could be read, 6 if the limit is exceeded.
    """
    try:
        parser = CommandParser("gpumemprof compare", "")
        parser.add_argument("--fail-above")
        parser.add_argument("--top", type=int, default=_MOST_ROWS)
        parser.add_argument("--device")
        parser.add_argument("--json", action="store_true")
        parser.add_argument("words", nargs="*")
        given = parser.parse(arguments)
        if len(given.words) != 2:
            raise parser.mistake("compare needs two folders of ranks, or two recordings")
        if given.device is not None:
            raise parser.mistake("--device does not belong to a comparison of ranks")
        if given.top < 1:
            raise parser.mistake("--top takes a number from 1 on")
        limit = None if given.fail_above is None else parse_limit(given.fail_above)
        for word in given.words:
            if not _is_folder(word):
                raise UsageError(
                    "this is no folder of ranks, and the other one is",
                    "usage",
                    word,
                    "name two folders, or a recording of each",
                )
        return _compare(given.words, limit, given.top, given.json)
    except Error as error:
        return fail(error)


def _compare(folders: list[str], limit: Limit | None, top: int, is_json: bool) -> int:
    read = [read_report([folder]) for folder in folders]
    first, second = (_only_job(folder, one.jobs) for folder, one in zip(folders, read))
    pairs = find_pairs(first.job.ranks, second.job.ranks)
    if not pairs.pairs:
        raise InputError(
            "no rank of both has a known peak", "bad_input", folders[1], "record both runs again"
        )
    if is_json:
        print(json.dumps(_as_json(folders, [first, second], pairs, limit), indent=2))
    else:
        lines = _as_text(folders, [first, second], pairs, limit, top)
        print("\n".join(printable(line) for line in lines))
    if any(one.problems for one in read):
        return _BAD_INPUT_CODE
    return _LIMIT_CODE if limit is not None and limit.is_exceeded(pairs) else 0


def _only_job(folder: str, jobs: list[JobReport]) -> JobReport:
    if any(one.rank is None for job in jobs for one in job.job.ranks):
        raise InputError(
            "none of its recordings says which rank of a job it is of",
            "bad_input",
            folder,
            "name two recordings: gpumemprof compare A.gmp B.gmp",
        )
    if len(jobs) > 1:
        raise InputError(
            f"it holds {len(jobs)} jobs, and one can be compared",
            "bad_input",
            folder,
            "copy the ranks of one to a folder of its own",
        )
    return jobs[0]


def _change(first: int, second: int) -> tuple[str, str]:
    """In bytes and as a share, each with its sign."""
    if first == second:
        return "0 B", "0.0 %"
    share = f"{100 * (second - first) / first:+.1f} %" if first else "new"
    return f"{'+' if second > first else '-'}{size(abs(second - first))}", share


def _as_text(
    folders: list[str],
    reports: list[JobReport],
    pairs: JobPairs,
    limit: Limit | None,
    top: int,
) -> list[str]:
    lines = []
    for letter, folder, report in zip("AB", folders, reports):
        lines += paragraph(f"{letter}: {folder}: {title_sentence(report)}")
    most = pairs.pairs[0]
    before, after = (
        max(getattr(pair, name) for pair in pairs.pairs) for name in ("first_bytes", "second_bytes")
    )
    change, share = _change(before, after)
    lines += [
        "",
        *paragraph(f"largest peak {size(before)} -> {size(after)}, {change} ({share})"),
        *paragraph(f"most growth: {rank_name(most.second)}, {_change(*_peaks(most))[0]}"),
        "",
        *_table(pairs.pairs, top),
    ]
    for which, ranks in (("A", pairs.only_first), ("B", pairs.only_second)):
        if ranks:
            lines += paragraph(f"Only {which} has {names_of(ranks)}.")
    if pairs.unknown:
        lines += paragraph(f"The peak is not known of {names_of(pairs.unknown)}.")
    if limit is not None:
        lines += ["", *paragraph(_verdict(pairs, limit))]
    return [*lines, *_next(most)]


def _peaks(pair: RankPair) -> tuple[int, int]:
    return pair.first_bytes, pair.second_bytes


def _table(pairs: list[RankPair], top: int) -> list[str]:
    """The largest changes, of both directions."""
    changed = [pair for pair in pairs if pair.difference_bytes]
    shown = sorted(changed, key=lambda pair: -abs(pair.difference_bytes))[:top]
    rows = [["change", "", "A", "B", "peak of"]]
    rows += [
        [*_change(*_peaks(pair)), *map(size, _peaks(pair)), rank_name(pair.second)]
        for pair in shown
    ]
    lines = table(rows, [False, False, False, False, True]) if shown else []
    if len(shown) < len(changed):
        lines.append(f"  and {len(changed) - len(shown):,} smaller changes")
    if len(changed) < len(pairs):
        lines.append(f"  {len(pairs) - len(changed):,} unchanged")
    return lines


def _verdict(pairs: JobPairs, limit: Limit) -> str:
    most = limit.text if limit.share is not None else size(limit.most_bytes)
    if limit.is_exceeded(pairs):
        return f"B exceeds the limit: a rank needs more than {most} above A."
    within = f"Within the limit: no rank needs more than {most} above A"
    if pairs.is_certain:
        return f"{within}."
    return f"{within}, as far as B was recorded: not all of it was, so a peak may have been higher."


def _next(pair: RankPair) -> list[str]:
    recordings = pair.first.recording, pair.second.recording
    if None in recordings:
        return []
    paths = [min(os.path.relpath(str(one)), str(one), key=len) for one in recordings]
    return ["", f"Next: gpumemprof compare {' '.join(map(shlex.quote, paths))}"]


def _as_json(
    folders: list[str], reports: list[JobReport], pairs: JobPairs, limit: Limit | None
) -> dict[str, Any]:
    sides = [
        {
            "folder": folder,
            "job": report.job.ranks[0].job,
            "restart": report.job.ranks[0].restart_count,
            "command": report.job.command,
            "ranks": len(report.job.ranks),
        }
        for folder, report in zip(folders, reports)
    ]
    return {
        "schema_version": 1,
        "first": sides[0],
        "second": sides[1],
        "ranks": [
            {
                "rank": pair.second.rank,
                "first_bytes": pair.first_bytes,
                "second_bytes": pair.second_bytes,
                "difference_bytes": pair.difference_bytes,
                "first_recording": pair.first.recording,
                "second_recording": pair.second.recording,
            }
            for pair in pairs.pairs
        ],
        "only_first": [one.rank for one in pairs.only_first],
        "only_second": [one.rank for one in pairs.only_second],
        "unknown": [one.rank for one in pairs.unknown],
        "limit": None
        if limit is None
        else {
            "fail_above": limit.text,
            "is_exceeded": limit.is_exceeded(pairs),
            "is_certain": limit.is_exceeded(pairs) or pairs.is_certain,
        },
    }
