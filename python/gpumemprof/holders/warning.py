"""Warns about leaks at the line of the program that led to it."""

from __future__ import annotations

import sys
import warnings

from gpumemprof.errors import LeakWarning
from gpumemprof.holders.reading import is_own_frame

__all__ = ["warn_of_leak"]


def warn_of_leak(text: str) -> None:
    """A `LeakWarning` that names the innermost line outside of this package."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and is_own_frame(frame):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, LeakWarning, stacklevel=level)
