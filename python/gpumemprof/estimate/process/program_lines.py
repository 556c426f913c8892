"""Lines of the program, as messages name them; known before torch is imported."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterable
from pathlib import Path
from types import FrameType

from gpumemprof.estimate.shown_paths import shown_path

__all__ = ["innermost_line", "is_of_program", "main_line"]

_OWN_FOLDER = str(Path(__file__).resolve().parents[2])
_LIBRARIES = (
    "site-packages",
    "dist-packages",
    _OWN_FOLDER,
    "<frozen",
    str(Path(os.__file__).resolve().parent),
)


def innermost_line(frames: Iterable[tuple[FrameType, int]]) -> str:
    """``train.py:52``; the frames begin with the outermost. Empty if none is the program's."""
    found = ""
    for frame, line in frames:
        file = frame.f_code.co_filename
        if is_of_program(file):
            found = f"{shown_path(file)}:{line}"
    return found


def is_of_program(file: str) -> bool:
    """Whether a file is the program's, not of Python or a library."""
    return not any(part in file for part in _LIBRARIES)


def main_line() -> str:
    """Where the program's main thread is."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    frames = []
    while frame is not None:
        frames.append((frame, frame.f_lineno))
        frame = frame.f_back
    return innermost_line(reversed(frames))
