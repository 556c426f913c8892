"""Runs ``gpumemprof live``."""

from __future__ import annotations

import importlib.util
import math
import os
import sys
import time
from collections.abc import Sequence

from gpumemprof.errors import Error, InputError
from gpumemprof.live.as_json import as_json
from gpumemprof.live.options import HELP, NO_TEXTUAL, Options, parse
from gpumemprof.live.plain import PlainLines
from gpumemprof.live.targets import find_target
from gpumemprof.live.watcher import Watcher
from gpumemprof.printable import printable

__all__ = ["has_screen", "main"]

_CODES = {"usage": 2, "bad_input": 3, "environment": 4}
_BUG_CODE = 70
_INTERRUPTED_CODE = 130
_PROGRESS_SECONDS = 0.5


def main(arguments: Sequence[str]) -> int:
    """Run the verb.

    Args:
        arguments: the words after ``live``.

    Returns:
        0, or 2 for wrong usage, 3 if there is nothing to watch, 130 after Ctrl-C.
    """
    try:
        options = parse(arguments)
        if options is None:
            print(HELP, end="")
            return 0
        watcher = Watcher([find_target(word) for word in options.words])
        if options.is_once:
            return _once(watcher, options)
        if not options.is_json and not options.is_plain and has_screen():
            from gpumemprof.live.screen.app import watch

            return watch(watcher)
        return _repeat(watcher, options)
    except Error as error:
        _say(str(error))
        return _CODES.get(error.code, _BUG_CODE)
    except KeyboardInterrupt:
        return _INTERRUPTED_CODE


def has_screen() -> bool:
    """Whether a screen can be drawn; where only Textual is missing, says so."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()) or os.environ.get("TERM") == "dumb":
        return False
    if importlib.util.find_spec("textual") is not None:
        return True
    _say(NO_TEXTUAL)
    return False


def _say(sentence: str) -> None:
    print(printable(f"gpumemprof: {sentence}"), file=sys.stderr, flush=True)


def _once(watcher: Watcher, options: Options) -> int:
    shows_progress = sys.stderr.isatty()
    watcher.look(_PROGRESS_SECONDS if shows_progress else math.inf)
    while watcher.is_behind:
        text = next(one.state.text for one in watcher.recordings if one.state.name == "reading")
        print(f"\r\x1b[K{printable(text)}", end="", file=sys.stderr, flush=True)
        watcher.look(_PROGRESS_SECONDS)
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
    if not watcher.recordings:
        raise InputError(" and ".join(watcher.why_none()), "bad_input")
    unreadable = [one for one in watcher.recordings if one.state.name == "unreadable"]
    if len(unreadable) == len(watcher.recordings):
        raise InputError(unreadable[0].state.text, "bad_input")
    if options.is_json:
        print(as_json(watcher))
    else:
        print("\n".join(PlainLines(watcher, is_once=True).lines()))
    return _finish(watcher)


def _finish(watcher: Watcher) -> int:
    """The exit code, and what cannot be read, as ``report`` says it."""
    damage = [one.damage for one in watcher.recordings if one.damage is not None]
    for error in damage:
        _say(str(error))
    return _CODES["bad_input"] if damage else 0


def _repeat(watcher: Watcher, options: Options) -> int:
    """Lines until everything has ended."""
    lines = PlainLines(watcher)
    while True:
        begin = time.monotonic()
        watcher.look(options.interval)
        if options.is_json:
            print(as_json(watcher), flush=True)
        elif new := lines.lines():
            print("\n".join(new), flush=True)
        if watcher.is_over:
            return _finish(watcher)
        time.sleep(max(0.0, begin + options.interval - time.monotonic()))
