"""Where a program was that did not end by itself: it crashed, or another one took its place."""

from __future__ import annotations

import faulthandler
import os
import re
import signal
from pathlib import Path
from typing import Any, Callable

from gpumemprof.estimate.process.program_lines import is_of_program, main_line

__all__ = ["STUCK_SIGNAL", "take_crash_line", "watch_crashes", "watch_replacement"]

STUCK_SIGNAL = signal.SIGXCPU
"""For a program that cannot be ended: it writes down where it is. Programs rarely use it."""

_SUFFIX = ".crash"
_FRAME = re.compile(r'  File "(?P<file>.*)", line (?P<line>\d+) in .*')


def watch_crashes(notes_path: str) -> None:
    """Have Python write down where it was if the process dies of a signal such as SIGSEGV.

    And at `STUCK_SIGNAL`, also in compiled code that lets no other thread of Python run.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    descriptor = os.open(notes_path + _SUFFIX, flags)
    if not faulthandler.is_enabled():  # Else the user wants to see it.
        faulthandler.enable(descriptor, all_threads=False)
    faulthandler.register(STUCK_SIGNAL, descriptor, all_threads=False, chain=False)


def take_crash_line(notes_path: Path) -> str:
    """The program's innermost line when it crashed, such as ``train.py:52``; empty if unknown."""
    path = Path(f"{notes_path}{_SUFFIX}")
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    path.unlink()
    for frame in _FRAME.finditer(text):  # The innermost comes first.
        if is_of_program(frame["file"]):
            return f"{os.path.relpath(frame['file'])}:{frame['line']}"
    return ""


def watch_replacement(refuse: Callable[[str], None]) -> None:
    """Refuse a program that replaces itself by another one: that would not be predicted."""
    process = os.getpid()

    def watch(name: str) -> None:
        real = getattr(os, name)

        def replace(path: Any, *args: Any) -> None:
            if os.getpid() == process:
                at = f"{line}: " if (line := main_line()) else ""
                refuse(
                    f"{at}the program starts {os.fsdecode(path)} in its place, which is not "
                    "predicted; leave that out, or name that program to gpumemprof estimate"
                )
            real(path, *args)

        setattr(os, name, replace)

    for name in ("execv", "execve"):
        watch(name)
