"""Where a program ends itself: these ways leave no traceback that would name the line."""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from typing import Any, Callable, NoReturn

from gpumemprof.estimate.process.program_lines import innermost_line

__all__ = ["watch_own_ends"]


def watch_own_ends(on_exit: Callable[[str], None], on_end_at_once: Callable[[str], None]) -> None:
    """Tell the line of each.

    `on_exit` is for ``sys.exit`` with an error, after which the program may still go on.
    `on_end_at_once` is for ``os._exit`` with one, and for a signal to itself that nobody handles:
    nothing runs after it.
    """
    _watch_exit(on_exit)
    _watch_exit_at_once(on_end_at_once)
    _watch_kill(on_end_at_once)


def _line_of_caller() -> str:
    """Of the function that calls this one."""
    frames = list(traceback.walk_stack(sys._getframe(2)))
    return innermost_line(reversed(frames))


def _watch_exit(on_exit: Callable[[str], None]) -> None:
    leave = sys.exit

    def exit(status: Any = None, /) -> NoReturn:
        if status not in (None, 0) and threading.current_thread() is threading.main_thread():
            on_exit(_line_of_caller())
        leave(status)

    sys.exit = exit


def _watch_exit_at_once(on_end: Callable[[str], None]) -> None:
    leave = os._exit
    process = os.getpid()

    def _exit(status: int) -> NoReturn:
        # Processes that it forks end so, too.
        if status and os.getpid() == process and (line := _line_of_caller()):
            on_end(line)
        leave(status)

    os._exit = _exit


def _watch_kill(on_end: Callable[[str], None]) -> None:
    kill = os.kill
    process = os.getpid()

    def watched(pid: int, number: int, /) -> None:
        if pid == process == os.getpid() and _ends(number):
            on_end(_line_of_caller())
        kill(pid, number)

    os.kill = watched


def _ends(number: int) -> bool:
    if number == signal.SIGKILL:
        return True
    try:
        return number in _DEADLY and signal.getsignal(number) == signal.SIG_DFL
    except ValueError:
        return False


_DEADLY = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGALRM, signal.SIGUSR1)
