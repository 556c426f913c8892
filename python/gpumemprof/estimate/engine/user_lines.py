"""The line of the user's program that is being executed."""

from __future__ import annotations

import linecache
import os
import sys
import sysconfig
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import torch

from gpumemprof.estimate.shown_paths import shown_path

__all__ = ["Line", "asking_line", "belongs_to_library", "current_line", "is_passed_through"]


class Line(NamedTuple):
    """A line of a program; the file is empty where no Python code was running."""

    file: str
    number: int
    function: str

    @property
    def text(self) -> str:
        return linecache.getline(self.file, self.number).strip()

    def __str__(self) -> str:
        if not self.file:
            return "an unknown line"
        short = shown_path(self.file)
        return f"{self.file if short.startswith(os.pardir) else short}:{self.number}"


_OWN_FOLDER = str(Path(__file__).resolve().parent.parent)
_TORCH_FOLDER = str(Path(torch.__file__).resolve().parent)
_LIBRARIES = (
    "<frozen",
    *(
        sysconfig.get_path(key) + os.sep
        for key in ("stdlib", "platstdlib", "purelib", "platlib")
        if sysconfig.get_path(key)
    ),
)
_PASS_ON = tuple(
    _TORCH_FOLDER + os.sep + name
    for name in ("_tensor.py", "_ops.py", "_compile.py", "utils/_contextlib.py", "functional.py")
)
_is_library: dict[str, bool] = {}


def belongs_to_library(file: str) -> bool:
    known = _is_library.get(file)
    if known is None:
        known = file.startswith(_LIBRARIES) or "site-packages" in file or "dist-packages" in file
        known = _is_library[file] = known or file.startswith(_OWN_FOLDER)
    return known


def is_passed_through(file: str) -> bool:
    """Whether a file only passes a question on: this package, or torch's methods of tensors."""
    return file.startswith((_OWN_FOLDER, "<")) or file.endswith(_PASS_ON)


def asking_line() -> Line:
    """The innermost line outside torch and this package, in a library or not."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith((_OWN_FOLDER, _TORCH_FOLDER)) and not file.startswith("<"):
            return Line(file, frame.f_lineno, frame.f_code.co_name)
        frame = frame.f_back
    return Line("", 0, "")


def current_line() -> Line:
    """Innermost line outside of installed packages, or else the innermost outside torch and us."""
    frame: FrameType | None = sys._getframe(1)
    inner: Line | None = None
    while frame is not None:
        file = frame.f_code.co_filename
        if not belongs_to_library(file):
            return Line(file, frame.f_lineno, frame.f_code.co_name)
        if inner is None and f"{os.sep}torch{os.sep}" not in file and _OWN_FOLDER not in file:
            inner = Line(file, frame.f_lineno, frame.f_code.co_name)
        frame = frame.f_back
    return inner or Line("", 0, "")
