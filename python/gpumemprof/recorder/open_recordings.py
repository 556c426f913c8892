"""The recordings that are open in this process, and what ends them when the process ends."""

from __future__ import annotations

import atexit
import functools
import os
import threading
from typing import TYPE_CHECKING, NoReturn

from gpumemprof import _core, hooks
from gpumemprof.recorder.program_end import reason_at_exit

if TYPE_CHECKING:
    from gpumemprof.recorder.active import ActiveRecording

__all__ = ["active", "lock", "prepare", "started"]

lock = threading.RLock()
"""Guards both lists. A forked child gets a new one, so always use it as an attribute."""
active: list[ActiveRecording] = []
"""All of them, oldest first."""
started: list[ActiveRecording] = []
"""Those that `start` began, oldest first."""


@functools.cache
def prepare() -> None:
    """Call before the first recording: however the process ends, its recordings are closed."""
    atexit.register(_stop_all)
    if not _core.capture_watch_exit():
        _wrap_exit()


def _wrap_exit() -> None:
    """Close the recordings before ``os._exit``, where its system call cannot be intercepted."""
    end = os._exit

    @functools.wraps(end)
    def close_and_end(status: int) -> NoReturn:
        try:
            _core.capture_stop_all(f"_exit {status}")
        finally:
            end(status)

    os._exit = close_and_end


def _forget() -> None:
    """In a forked child: the recordings belong to the parent."""
    global lock
    lock = threading.RLock()
    for recording in active:
        recording._forget()
    active.clear()
    started.clear()
    hooks.forget()


# Modules that start something in a child import this one first, so their hooks run after it.
os.register_at_fork(after_in_child=_forget)


def _stop_all() -> None:
    for recording in list(reversed(active)):
        recording.stop(reason_at_exit())
