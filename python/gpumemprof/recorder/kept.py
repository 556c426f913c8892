"""Recordings with a limit on their size: ``keep=``, and the folder of chapters that it makes."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path
from typing import Union

from gpumemprof import _core
from gpumemprof.errors import UsageError

__all__ = ["FIRST_CHAPTER", "Size", "chapter_events", "kept_bytes", "remove_chapters"]

Size = Union[int, str]

_LEAST_BYTES = 64 << 20
_CHAPTER = re.compile(r"chapter-\d{6,}\.gmp")
FIRST_CHAPTER = "chapter-000001.gmp"


def kept_bytes(size: Size | None, name: str = "keep") -> int:
    """The size in bytes; 0 if there is no limit.

    >>> kept_bytes("2GiB")
    2147483648

    Raises:
        UsageError: it is not a size, or too small.
    """
    if size is None:
        return 0
    found = size if isinstance(size, int) else _core.parse_bytes(size)
    if found is None or isinstance(size, bool):
        raise UsageError(f"{name} takes a size such as 2GiB, not '{size}'", "usage")
    if found < _least_bytes():
        least = _core.format_bytes(_least_bytes())
        raise UsageError(f"{name} {size} is too small: give at least {least}", "usage")
    return found


def _least_bytes() -> int:
    # Tests fill small folders.
    return int(os.environ.get("GPUMEMPROF_LEAST_KEEP", _LEAST_BYTES))


def chapter_events() -> int:
    """How many events a chapter has, for tests; 0 for as many as usual."""
    return int(os.environ.get("GPUMEMPROF_CHAPTER_EVENTS", "0"))


def remove_chapters(folder: Path, leaves_folder: bool = False) -> None:
    """Remove a recording from its folder, and the folder if nothing else is in it."""
    with contextlib.suppress(OSError):
        for entry in folder.iterdir():
            if _CHAPTER.fullmatch(entry.name) or entry.name == "summary":
                entry.unlink(missing_ok=True)
        if not leaves_folder:
            folder.rmdir()
