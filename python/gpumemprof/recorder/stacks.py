"""What the recorder can read of this Python and this torch; each is tested before it is used."""

from __future__ import annotations

import _thread
import contextlib
import functools
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from gpumemprof import _core
from gpumemprof.errors import Error
from gpumemprof.torch_calls import modules, readiness

__all__ = [
    "probe_apart",
    "why_no_forward_stacks",
    "why_no_modules",
    "why_no_native_stacks",
    "why_no_stacks",
]

_MOST_FRAMES = 512


def _probe() -> bool:
    """Whether a raw walk of this thread's frames matches what Python reports."""
    raw, line = _core.capture_own_stack(), sys._getframe().f_lineno
    seen = []
    current: Any = sys._getframe()
    while current is not None:
        code = current.f_code
        seen.append((getattr(code, "co_qualname", code.co_name), code.co_filename, line))
        current = current.f_back
        line = current.f_lineno if current is not None else 0
    return raw == seen[: len(raw)] and len(raw) == min(len(seen), _MOST_FRAMES)


def _learn_thread_key() -> None:
    """Saves a call into Python for every event; nothing is lost if this fails."""
    is_found = _thread.allocate_lock()

    def find() -> None:
        try:
            _core.capture_find_thread_key()
        finally:
            is_found.release()

    is_found.acquire()
    with contextlib.suppress(RuntimeError):  # There may be too many threads.
        _thread.start_new_thread(find, ())
        is_found.acquire()
        _core.capture_use_thread_key()


@functools.cache
def why_no_stacks() -> str | None:
    """Turn on stacks; returns why they are unavailable if that fails."""
    try:
        _core.capture_prepare_stacks()
    except Error as error:
        return error.message
    _learn_thread_key()
    # Through a generator and a C function, whose frames are stored differently.
    if not _probe() or not next(_probe() for _ in (0,)) or not all(map(lambda _: _probe(), (0,))):  # noqa: C417
        return "this Python stores its frames in a way that gpumemprof does not support"
    return None


def why_no_native_stacks() -> str | None:
    """Why the C++ frames below Python's are unavailable; None if they are not."""
    try:
        _core.capture_check_native_stacks()
    except Error as error:
        return error.message
    return None


@functools.cache
def why_no_forward_stacks() -> str | None:
    """Turn on forward stacks; returns why memory allocated in backward has none if that fails."""
    if (problem := why_no_stacks()) is not None:
        return problem
    try:
        _core.capture_attach_autograd()
        first, second = modules.two_nodes()
        _core.capture_validate_autograd(first, first._sequence_nr(), second, second._sequence_nr())
    except Exception as error:
        return str(error)
    return None


@functools.cache
def why_no_modules() -> str | None:
    """Turn on module attribution of allocations; returns why it is unavailable if that fails."""
    if (problem := why_no_stacks()) is not None:
        return problem
    try:
        modules.follow_modules()
    except Exception as error:
        return str(error)
    return None


def probe_apart() -> None:
    """Find out all of this with a recording of its own, which is never written.

    The tensors that it takes would be in a recording of CPU tensors, below a line of the program.
    """
    if why_no_forward_stacks.cache_info().currsize or not readiness.is_imported():
        return
    with contextlib.suppress(Exception):  # Then they are.
        path = os.fsencode(Path(tempfile.gettempdir()) / f"gpumemprof-probes-{os.getpid()}.gmp")
        number = _core.capture_start(path, False, False, True, True, {})
        try:
            why_no_forward_stacks()
            why_no_modules()
        finally:
            _core.capture_stop(number, "probed")
