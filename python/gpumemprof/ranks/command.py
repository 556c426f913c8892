"""Runs ``gpumemprof ranks``."""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Sequence

from gpumemprof.command_line import CommandParser
from gpumemprof.errors import Error, InputError
from gpumemprof.printable import printable
from gpumemprof.ranks.as_json import as_json
from gpumemprof.ranks.read import read_ranks
from gpumemprof.ranks.report import RanksReport, make_report
from gpumemprof.ranks.text import as_text

__all__ = ["main"]

_CODES = {"usage": 2, "bad_input": 3, "environment": 4}
_BUG_CODE = 70
_BAD_INPUT_CODE = 3
_SHOWN_EVERY = 64
_MOST_INDENTED = 64
_HELP = """\
Compare the ranks of a job: which is nearest to its limit, and why.

Usage: gpumemprof ranks [OPTIONS] FOLDER|FILE|PATTERN...

A folder stands for the recordings and summaries in it and below it. Where a
recording has a summary beside it, only that is read.

Options:
  --json      Print the report as JSON
  -h, --help  Print this help
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
        parser.add_argument("words", nargs="*")
        given = parser.parse(arguments)
        if given.help:
            print(_HELP, end="")
            return 0
        if not given.words:
            raise parser.mistake("ranks needs a folder, or the files of the ranks")
        return _run(given.words, given.json)
    except Error as error:
        _say(str(error))
        return _CODES.get(error.code, _BUG_CODE)


def _say(sentence: str) -> None:
    print(printable(f"gpumemprof: {sentence}"), file=sys.stderr, flush=True)


def _json_text(report: RanksReport, ranks: int) -> str:
    """Indented for people; of many ranks, on one line, which is written much faster."""
    return json.dumps(as_json(report), indent=2 if ranks <= _MOST_INDENTED else None)


def _run(words: Sequence[str], is_json: bool) -> int:
    shows = sys.stderr.isatty()

    def progress(done: int, total: int) -> None:
        if shows and done % _SHOWN_EVERY == 0:
            print(f"\r\x1b[K{done:,} of {total:,} ranks read", end="", file=sys.stderr, flush=True)

    gc.disable()  # Nothing here is in a cycle, and there is much of it.
    found = read_ranks(words, progress)
    if shows:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
    for problem in found.problems:
        _say(problem)
    if not found.ranks:
        raise InputError(
            "none of the files could be read", "bad_input", ", ".join(words), "see the lines above"
        )
    report = make_report(found)
    print(_json_text(report, len(found.ranks)) if is_json else as_text(report))
    return _BAD_INPUT_CODE if found.problems else 0
