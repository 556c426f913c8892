"""The command line of ``gpumemprof live``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpumemprof.command_line import CommandParser

__all__ = ["HELP", "NO_TEXTUAL", "Options", "parse"]

HELP = """\
Watch programs while they run: how full the card is, and what fills it.

Usage: gpumemprof live [OPTIONS] [FILE|FOLDER|PID...]
       gpumemprof run --live SCRIPT [ARGUMENTS...]

A FILE is a recording that gpumemprof run is writing, a PID a process that it
started; a FOLDER stands for all recordings that are written in it (default:
the current folder). The programs are not touched: only their files are read.

Options:
  --plain             Print lines instead of a screen; the default without a
                      terminal
  --json              Print JSON, one line per look
  --once              Look once and end
  --interval SECONDS  Time between two lines (default: 5; with --json: 1)
  -h, --help          Print this help

Keys: arrows select, < > sort, / filters, ? helps, q quits.
"""

NO_TEXTUAL = "the screen needs Textual: pip install textual; until then, plain lines"

_LEAST_SECONDS = 0.05
_MOST_SECONDS = 86400.0
_PLAIN_SECONDS = 5.0
_JSON_SECONDS = 1.0


@dataclass
class Options:
    """What to watch, and how to show it."""

    words: list[str]
    is_plain: bool = False
    is_json: bool = False
    is_once: bool = False
    interval: float = _PLAIN_SECONDS


def parse(words: Sequence[str]) -> Options | None:
    """The options; None if help is wanted.

    Raises:
        UsageError: one of them is wrong.
    """
    parser = CommandParser("gpumemprof live", HELP)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--once", action="store_true")
    parser.add_argument("--interval")
    given = parser.parse(words)
    if given.help:
        return None
    if given.plain and given.json:
        raise parser.mistake("--plain and --json exclude each other")
    interval = _JSON_SECONDS if given.json else _PLAIN_SECONDS
    if given.interval is not None:
        try:
            interval = float(given.interval)
        except ValueError:
            interval = 0.0
        if not _LEAST_SECONDS <= interval <= _MOST_SECONDS:
            raise parser.mistake(
                f"--interval takes seconds from {_LEAST_SECONDS} to {_MOST_SECONDS:.0f}, "
                f"but has '{given.interval}'"
            )
    return Options(given.words or ["."], given.plain, given.json, given.once, interval)
