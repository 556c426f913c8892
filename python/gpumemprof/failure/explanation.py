"""Explains a failure from its recording, in another process and in limited time.

Another process: the failing one may have no memory left, and must not crash a second time.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

__all__ = ["Explanation", "Question", "ask", "most_seconds"]

_MOST_SECONDS = 2.0
_CODE = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from gpumemprof.failure.child import main; main(sys.argv[2])"
)


class Question(NamedTuple):
    """Which failure is to be explained."""

    path: str
    until_unix_ns: int
    error: str
    """What the exception says."""
    is_allocator: bool
    """Whether PyTorch's allocator raised it."""
    device: int | None
    width: int


class Explanation(NamedTuple):
    """What was found out in time."""

    note: str
    page: str
    cause: str
    is_cut: bool
    """More would have been found with more time."""


def most_seconds() -> float:
    """How long a failing program waits for its explanation."""
    try:
        return max(0.0, float(os.environ.get("GPUMEMPROF_EXPLAIN_SECONDS", _MOST_SECONDS)))
    except ValueError:
        return _MOST_SECONDS


def ask(question: Question) -> Explanation | None:
    """Explain it; None if nothing was found out in time."""
    seconds = most_seconds()
    if seconds == 0 or not sys.executable:
        return None
    folder = str(Path(__file__).resolve().parents[2])
    arguments = json.dumps({**question._asdict(), "seconds": seconds})
    # Isolated: nothing in the program's environment is to run there, least of all a recorder.
    words = [sys.executable, "-I", "-S", "-c", _CODE, folder, arguments]
    try:
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
    except (OSError, ValueError):
        return None
    try:
        output, is_over = process.communicate(timeout=seconds)[0], True
    except subprocess.TimeoutExpired:
        process.kill()
        output, is_over = process.communicate()[0], False
    except BaseException:
        process.kill()
        process.wait()
        raise
    return _read(output, is_over)


def _read(output: bytes, is_over: bool) -> Explanation | None:
    """The last line that was written as a whole: each says more than the one before."""
    found = None
    for line in output.splitlines():
        with contextlib.suppress(ValueError, KeyError, TypeError):
            row = json.loads(line)
            is_cut = not is_over and not row["is_last"]
            found = Explanation(row["note"], row["page"], row["cause"], is_cut)
    return found
