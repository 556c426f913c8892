"""Makes text from other sources (names, paths, messages) safe to show on a terminal."""

from __future__ import annotations

import contextlib
import re
import sys

__all__ = ["print_line", "printable"]

# As in the core's base/printable.h: ASCII and Latin-1 control characters, bidirectional controls,
# line separators, and invisible characters.
_ACTS_ON_TERMINAL = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\U000e0000-\U000e007f\ud800-\udfff]"
)


def printable(text: str) -> str:
    """Replace every character that would control the terminal instead of being shown with a dot.

    >>> printable("a\\x1b[31mb")
    'a.[31mb'
    """
    return _ACTS_ON_TERMINAL.sub(".", text)


def print_line(text: str) -> None:
    """Print a line, or several, on standard error, whatever state it is in."""
    # It may be closed or full, or the text may contain what it cannot encode.
    if sys.stderr is not None:  # print() would use standard output instead
        with contextlib.suppress(OSError, ValueError, AttributeError):
            shown = "\n".join(printable(line) for line in text.split("\n"))
            sys.stderr.write(f"{shown}\n")  # at once: other processes may print too
            sys.stderr.flush()
