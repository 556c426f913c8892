"""Parses the flags of the commands that are written in Python, with the messages of the others."""

from __future__ import annotations

import argparse
import difflib
import re
from collections.abc import Sequence
from typing import NoReturn

from gpumemprof.errors import UsageError

__all__ = ["CommandParser"]

_NEEDS_VALUE = re.compile(r"argument (?P<flag>[^/:]+)[^:]*: expected .*argument")
_TAKES_NO_VALUE = re.compile(r"argument (?P<flag>[^:]+): ignored explicit argument (?P<value>.*)")


class CommandParser(argparse.ArgumentParser):
    """Raises a `UsageError` of one sentence instead of printing a usage line and exiting.

    >>> parser = CommandParser("gpumemprof run", "Usage: ...")
    >>> _ = parser.add_argument("--cpu", action="store_true")
    >>> parser.parse(["--cpus"])
    Traceback (most recent call last):
    gpumemprof.errors.UsageError: unknown flag '--cpus', did you mean '--cpu'?
    """

    def __init__(self, command: str, help_text: str) -> None:
        """Use `command` in hints; `help_text` is all that ``--help`` prints."""
        super().__init__(prog=command, add_help=False, allow_abbrev=False)
        self.help_text = help_text
        self._words: list[str] = []
        self.add_argument("-h", "--help", action="store_true")

    def parse(self, words: Sequence[str]) -> argparse.Namespace:
        """Parse all words; with ``help`` set, what else is given does not matter.

        Raises:
            UsageError: a flag or an argument is unknown, or a value is missing or not expected.
        """
        self._words = list(words)
        options, unknown = self.parse_known_args(self._words)
        if unknown and not options.help:
            self._refuse(unknown[0])
        return options

    def error(self, message: str) -> NoReturn:
        """Called by argparse, with a sentence of its own."""
        if match := _NEEDS_VALUE.match(message):
            message = self._value_missing(match["flag"])
        elif match := _TAKES_NO_VALUE.match(message):
            message = f"{match['flag'].rpartition('/')[2]} takes no value, but has {match['value']}"
        raise self.mistake(message)

    def may_take_value(self, flag: str) -> bool:
        """Whether the next word may belong to it; so with unknown flags."""
        action = self._option_string_actions.get(flag)
        return action is None or action.nargs != 0

    def mistake(self, message: str) -> UsageError:
        """A mistake in the command line, with a hint where to read on."""
        return UsageError(message, "usage", "", f"see {self.prog} --help")

    def format_help(self) -> str:
        """The help text."""
        return self.help_text

    def _value_missing(self, flag: str) -> str:
        """What is wrong with a flag, by its first name, that has no value."""
        names = self._option_string_actions[flag].option_strings
        for word, next_word in zip(self._words, self._words[1:]):
            if word in names and next_word.startswith("-") and not self._is_flag(next_word):
                return f"{word} needs a value; if {next_word} is it, write {word}={next_word}"
        return f"{flag} needs a value"

    def _is_flag(self, word: str) -> bool:
        """Whether it is a flag, or ends the flags."""
        return word == "--" or word.partition("=")[0] in self._option_string_actions

    def _refuse(self, word: str) -> NoReturn:
        if not word.startswith("-"):
            raise self.mistake(f"unexpected argument '{word}'")
        flag = word.partition("=")[0]
        close = difflib.get_close_matches(flag, self._option_string_actions, n=1)
        if close:
            raise UsageError(f"unknown flag '{flag}', did you mean '{close[0]}'?", "usage")
        raise self.mistake(f"unknown flag '{flag}'")
