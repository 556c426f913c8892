"""Runs ``gpumemprof export``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from gpumemprof.command_line import CommandParser
from gpumemprof.errors import Error, InputError, UsageError
from gpumemprof.export.parquet import TABLES, pyarrow_or_error, write_rank
from gpumemprof.printable import printable
from gpumemprof.ranks.read import read_ranks

__all__ = ["main"]

_CODES = {"usage": 2, "bad_input": 3, "environment": 4}
_BUG_CODE = 70
_HELP = """\
Write recordings as tables for other engines: Parquet, one folder for each rank.

Usage: gpumemprof export --to parquet OUT FOLDER|FILE|PATTERN...

Writes the tables events, allocations, steps, sites and ranks to folders of OUT,
partitioned by job and rank. Needs pyarrow: pip install "gpumemprof[ranks]"

Options:
  --to FORMAT  The format; parquet is the only one
  -f, --force  Write into OUT even if it holds such tables; files of the same
               recordings are replaced
  -h, --help   Print this help
"""


def main(arguments: Sequence[str]) -> int:
    """Run the verb.

    Args:
        arguments: the words after ``export``.

    Returns:
        0, or 2 for wrong usage, 3 if not everything could be read, 4 if something is missing here.
    """
    try:
        parser = CommandParser("gpumemprof export", _HELP)
        parser.add_argument("--to")
        parser.add_argument("-f", "--force", action="store_true")
        parser.add_argument("words", nargs="*")
        given = parser.parse(arguments)
        if given.help:
            print(_HELP, end="")
            return 0
        if given.to != "parquet":
            what = "--to is missing" if given.to is None else f"unknown format '{given.to}'"
            raise UsageError(what, "usage", "", "write --to parquet")
        if len(given.words) < 2:
            raise parser.mistake("export needs a folder to write to, and what to write")
        return _run(Path(given.words[0]), given.words[1:], given.force)
    except Error as error:
        _say(str(error))
        return _CODES.get(error.code, _BUG_CODE)
    except OSError as error:
        _say(f"{error.filename or 'the output'}: cannot be written: {error.strerror}")
        return _CODES["environment"]


def _say(sentence: str) -> None:
    print(printable(f"gpumemprof: {sentence}"), file=sys.stderr, flush=True)


def _run(out: Path, words: Sequence[str], overwrites: bool) -> int:
    pyarrow_or_error()
    if not overwrites and any((out / table).exists() for table in TABLES):
        raise UsageError("it holds tables already", "usage", str(out), "add -f, or name another")
    found = read_ranks(words)
    problems = list(found.problems)
    shows = sys.stderr.isatty()
    for done, rank in enumerate(found.ranks):
        if shows:
            line = f"\r\x1b[K{done:,} of {len(found.ranks):,} written"
            print(line, end="", file=sys.stderr, flush=True)
        problems += write_rank(rank, out)
    if shows:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
    for problem in problems:
        _say(problem)
    if not found.ranks:
        raise InputError("nothing could be read", "bad_input", ", ".join(words), "see above")
    count = len(found.ranks)
    what = "1 recording" if count == 1 else f"{count:,} recordings"
    print(f"{what} written to {printable(str(out))}")
    return _CODES["bad_input"] if problems else 0
