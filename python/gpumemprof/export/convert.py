"""Runs ``gpumemprof convert`` to Parquet and Arrow; the core writes the other formats.

``export`` writes the same tables of many recordings, for engines that read folders of them.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from gpumemprof import _core
from gpumemprof.command_line import CommandParser
from gpumemprof.errors import EnvironmentProblem, Error, UsageError
from gpumemprof.export.files import pyarrow_or_error, written_file
from gpumemprof.export.recorded import TABLES, write_recorded
from gpumemprof.printable import printable
from gpumemprof.read.arguments import device_number

__all__ = ["is_wanted", "main"]

FORMATS = ("parquet", "arrow")
_CODES = {"usage": 2, "bad_input": 3, "environment": 4}
_BUG_CODE = 70


def is_wanted(words: Sequence[str]) -> bool:
    """Whether these words ask for one of our formats, and for no help.

    >>> is_wanted(["run.gmp", "out", "--to", "arrow"])
    True
    >>> is_wanted(["run.gmp", "out.parquet", "--to=gmp"])
    False
    >>> is_wanted(["run.gmp", "--device", "0", "out.parquet"])
    True
    """
    try:
        given, _ = _parser().parse_known_args(list(words))
    except UsageError:
        return False  # the core says what is wrong
    return not given.help and _format_of(given) in FORMATS


def _format_of(given: argparse.Namespace) -> str:
    """What the user names, or else which of FORMATS the output ends like; empty: another."""
    by_suffix = next((name for name in FORMATS if given.out.endswith(f".{name}")), "")
    return by_suffix if given.to is None else str(given.to)


def main(arguments: Sequence[str]) -> int:
    """Run the verb.

    Args:
        arguments: the words after ``convert``.

    Returns:
        0, or 2 for wrong usage, 3 if the recording is bad or cut off, 4 if OUT cannot be written or
        something is missing here.
    """
    try:
        return _run(arguments)
    except Error as error:
        _say(str(error))
        return _CODES.get(error.code, _BUG_CODE)
    except OSError as error:
        where = error.filename or "the output"
        _say(f"{where}: cannot be written: {error.strerror}; name another place")
        return _CODES["environment"]


def _say(sentence: str) -> None:
    print(printable(f"gpumemprof: {sentence}"), file=sys.stderr, flush=True)


def _parser() -> CommandParser:
    parser = CommandParser("gpumemprof convert", "")
    parser.add_argument("--to")
    parser.add_argument("--table")
    parser.add_argument("--steps")
    parser.add_argument("--events")
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--device")
    parser.add_argument("-f", "--force", action="store_true")
    parser.add_argument("--at")
    parser.add_argument("--clock-of")
    parser.add_argument("recording")
    parser.add_argument("out")
    return parser


def _run(arguments: Sequence[str]) -> int:
    given = _parser().parse(arguments)
    to = _format_of(given)
    for flag, value in (("--at", given.at), ("--clock-of", given.clock_of)):
        if value is not None:
            raise UsageError(f"{flag} does not belong to --to {to}", "usage", "", "leave it out")
    if given.table is not None and given.table not in TABLES:
        raise UsageError(
            f"there is no table '{given.table}'", "usage", "", f"the tables are {', '.join(TABLES)}"
        )
    if (
        sum(
            given_one not in (None, False) for given_one in (given.steps, given.events, given.whole)
        )
        > 1
    ):
        raise UsageError(
            "only one of --steps, --events and --whole can be given",
            "usage",
            "",
            "leave the others out",
        )
    pyarrow_or_error()
    recording, out = given.recording, given.out
    with _out_files(out, given.table, to, given.force) as paths:
        part = _part(recording, given)
        missing = write_recorded(
            recording if part is None else part, paths, to, device_number(given.device)
        )
    for sentence in missing.sentences:
        _say(f"{recording}: {sentence}")
    print(f"Written to {printable(out)}")
    print("Next: read it with pandas, Polars, DuckDB or PyArrow")
    if missing.cut is None:
        return 0
    _say(missing.cut)
    return _CODES["bad_input"]


def _part(recording: str, given: argparse.Namespace) -> _core.RecordingHandle | None:
    """What is to be held in memory; None: the file is read in windows."""
    if given.steps is None and given.events is None and not given.whole:
        return None
    ranges = _range("--events", given.events), _range("--steps", given.steps)
    return _core.open(os.fsencode(recording), *ranges)


def _range(flag: str, text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    first, _, last = text.partition(":")
    if not (first.isdecimal() and last.isdecimal()):
        raise UsageError(
            f"{flag} takes two numbers such as 3:5, not '{text}'", "usage", "", f"try {flag} 3:5"
        )
    return int(first), int(last)


@contextlib.contextmanager
def _out_files(
    out: str, table: str | None, suffix: str, overwrites: bool
) -> Iterator[dict[str, str]]:
    """The path to write each table to; they appear when all of them are complete."""
    place = Path(out)
    if place.exists() and not overwrites:
        raise UsageError("already exists", "usage", out, "add -f, or name another")
    if table is None and place.exists() and not place.is_dir():
        raise UsageError("is a file, and all tables need a folder", "usage", out, "name another")
    if not place.parent.is_dir():
        raise EnvironmentProblem(
            "cannot be created: its folder does not exist", "environment", out, "name another"
        )
    is_new = table is None and not place.exists()
    if is_new:
        place.mkdir()
    names = (
        {name: place / f"{name}.{suffix}" for name in TABLES} if table is None else {table: place}
    )
    try:
        with contextlib.ExitStack() as stack:
            yield {
                name: stack.enter_context(written_file(str(path.absolute())))
                for name, path in names.items()
            }
    except BaseException:
        if is_new:
            with contextlib.suppress(OSError):
                place.rmdir()
        raise
