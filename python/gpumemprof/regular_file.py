"""Opens files that were found, or that a user named: only what is a file, and without waiting."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO

from gpumemprof.errors import InputError

__all__ = ["open_regular", "read_regular"]

_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def open_regular(path: str | Path) -> BinaryIO:
    """Open a file to read its bytes.

    To open a pipe waits for somebody who writes to it, unless it must not wait; what the path names
    is asked of what was opened, since it may be another file a moment later.

    Raises:
        InputError: it is no regular file.
        OSError: it cannot be read.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError:
        # A socket cannot be opened at all.
        _check(path, Path(path).stat().st_mode)
        raise
    file = os.fdopen(descriptor, "rb")
    try:
        _check(path, os.fstat(descriptor).st_mode)
    except InputError:
        file.close()
        raise
    return file


def _check(path: str | Path, mode: int) -> None:
    kind = _KINDS.get(stat.S_IFMT(mode))
    if kind is not None:
        raise InputError(
            f"this is {kind}, not a file",
            "bad_input",
            str(path),
            "write what it gives to a file, and name that",
        )


def read_regular(path: str | Path, most_bytes: int) -> bytes:
    """All of a file.

    Raises:
        InputError: it is no regular file, or has more bytes.
        OSError: it cannot be read.
    """
    with open_regular(path) as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise InputError(
            "the file is far too long", "bad_input", str(path), "check that it is the file you mean"
        )
    return content
