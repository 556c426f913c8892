"""Warns about leaks at the line of the program that led to it."""

from __future__ import annotations

import sys
import warnings
from types import FrameType

from gpumemprof.errors import LeakWarning
from gpumemprof.holders.names import is_library_file
from gpumemprof.holders.reading import file_of, is_own_frame

__all__ = ["warn_of_leak"]


def warn_of_leak(text: str) -> None:
    """A `LeakWarning` that names the innermost line of the program, not of torch that called us."""
    frame = sys._getframe()
    while frame.f_back is not None and is_own_frame(frame):
        frame = frame.f_back
    line: FrameType | None = frame
    while line is not None and is_library_file(file_of(line)):
        line = line.f_back
    at = line or frame  # A program may consist of installed packages alone.
    names = at.f_globals
    warnings.warn_explicit(
        text,
        LeakWarning,
        file_of(at),
        at.f_lineno,
        names.get("__name__", "<unknown>"),
        names.setdefault("__warningregistry__", {}),
    )
