"""Runs ``gpumemprof ranks``."""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from gpumemprof.command_line import CommandParser
from gpumemprof.errors import Error, InputError
from gpumemprof.printable import printable
from gpumemprof.ranks.as_json import as_json
from gpumemprof.ranks.read import Found, Progress, read_ranks
from gpumemprof.ranks.reading import places
from gpumemprof.ranks.report import RanksReport, make_report
from gpumemprof.ranks.text import as_text

__all__ = ["fail", "main", "read_report"]

_CODES = {"usage": 2, "bad_input": 3, "environment": 4}
_BUG_CODE = 70
_BAD_INPUT_CODE = 3
_SHOWN_EVERY_S = 0.1
_MOST_INDENTED = 64
_MEGABYTE = 1_000_000
_HELP = """\
Compare the ranks of a job: which is nearest to its limit, and why.

Usage: gpumemprof ranks [OPTIONS] FOLDER|FILE|PATTERN|URL...

A folder stands for the recordings and summaries in it and below it. Where a
recording has a summary beside it, only that is read. A URL is anything that
fsspec opens, such as s3://bucket/runs.

Options:
  --html OUT     Write one HTML file: ranks as a heat map over steps
  -f, --force    Replace an existing HTML file
  --json         Print the report as JSON
  --ray ADDRESS  Read on a Ray cluster: auto, HOST:PORT or local; needs
                 pip install ray
  -h, --help     Print this help
"""


def main(arguments: Sequence[str]) -> int:
    """Run the verb.

    Args:
        arguments: the words after ``ranks``.

    Returns:
        0, or 2 for wrong usage, 3 if nothing, or not everything, could be read.
    """
    try:
        parser = CommandParser("gpumemprof ranks", _HELP)
        parser.add_argument("--json", action="store_true")
        parser.add_argument("--html")
        parser.add_argument("-f", "--force", action="store_true")
        parser.add_argument("--ray")
        parser.add_argument("words", nargs="*")
        given = parser.parse(arguments)
        if given.help:
            print(_HELP, end="")
            return 0
        if not given.words:
            raise parser.mistake("ranks needs a folder, or the files of the ranks")
        if given.html is not None:
            return _write_html(given.words, given.ray, given.html, given.force)
        return _run(given.words, given.ray, given.json)
    except Error as error:
        return fail(error)


def fail(error: Error) -> int:
    """Say what failed; returns the exit code."""
    _say(str(error))
    return _CODES.get(error.code, _BUG_CODE)


def _say(sentence: str) -> None:
    print(printable(f"gpumemprof: {sentence}"), file=sys.stderr, flush=True)


def _json_text(report: RanksReport, ranks: int) -> str:
    """Indented for people; of many ranks, on one line, which is written much faster."""
    return json.dumps(as_json(report), indent=2 if ranks <= _MOST_INDENTED else None)


def _read(words: Sequence[str], progress: Progress | None, ray: str | None) -> Found:
    if ray is None:
        return read_ranks(words, progress)
    from gpumemprof.ranks.reading.cluster import RayWorkers

    with RayWorkers(ray) as workers:
        return read_ranks(words, progress, workers)


def _progress(what: str) -> Progress | None:
    """A line on the terminal; none in a pipe."""
    if not sys.stderr.isatty():
        return None

    shown_s = 0.0

    def show(done: int, total: int) -> None:
        nonlocal shown_s
        # By time, not by number: a few long recordings take as long as thousands of summaries.
        if time.monotonic() - shown_s >= _SHOWN_EVERY_S:
            shown_s = time.monotonic()
            print(f"\r\x1b[K{done:,} of {total:,} {what}", end="", file=sys.stderr, flush=True)

    return show


def _end_progress() -> None:
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def read_report(words: Sequence[str], ray: str | None = None) -> RanksReport:
    """Read and compare the ranks, on a Ray cluster if one is named; says what could not be read.

    Raises:
        InputError: there is nothing to read, or none of it can be read.
    """
    gc.disable()  # Nothing here is in a cycle, and there is much of it.
    found = _read(words, _progress("ranks read"), ray)
    _end_progress()
    for problem in found.problems:
        _say(problem)
    if not found.ranks:
        raise InputError(
            "none of the files could be read", "bad_input", ", ".join(words), "see the lines above"
        )
    return make_report(found)


def _run(words: Sequence[str], ray: str | None, is_json: bool) -> int:
    report = read_report(words, ray)
    count = sum(len(job.job.ranks) for job in report.jobs)
    is_folder = len(words) == 1 and (places.is_url(words[0]) or Path(words[0]).is_dir())
    folder = words[0] if is_folder else None
    print(_json_text(report, count) if is_json else as_text(report, folder))
    return _BAD_INPUT_CODE if report.problems else 0


def _write_html(words: Sequence[str], ray: str | None, output: str, is_forced: bool) -> int:
    from gpumemprof.ranks.page.packed import write_html

    report = read_report(words, ray)
    size = write_html(report, output, is_forced, _progress("ranks drawn"))
    _end_progress()
    shown = f"{size / 1e6:.1f} MB" if size >= _MEGABYTE else f"{size / 1e3:.0f} KB"
    print(f"Written to {printable(output)} ({shown}); any browser opens it.")
    return _BAD_INPUT_CODE if report.problems else 0
