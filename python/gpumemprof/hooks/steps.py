"""What a program reports while it is recorded: where steps begin, what memory is for."""

from __future__ import annotations

import functools
import threading
from typing import Any, Callable, TypeVar

from gpumemprof import _core
from gpumemprof.errors import UsageError

__all__ = ["step", "tag"]

_Function = TypeVar("_Function", bound=Callable[..., Any])
_lock = threading.Lock()
_steps = 0
_listeners: list[Callable[[], None]] = []


def listen(callback: Callable[[], None]) -> None:
    """Call back at every `step`, once its marks are made."""
    _listeners.append(callback)


def stop_listening(callback: Callable[[], None]) -> None:
    if callback in _listeners:
        _listeners.remove(callback)


def step() -> None:
    """Mark the beginning of a training step, and the end of the previous one.

    ::

        for batch in loader:
            gpumemprof.step()
    """
    global _steps
    if not _core.capture_is_recording():
        return
    with _lock:
        number = _steps
        _steps += 1
    # Reports count steps from 1.
    if number > 0:
        _core.capture_mark(f"step {number}", False)
    _core.capture_mark(f"step {number + 1}", True)
    _core.capture_mark_phase(_core.PhaseMark.step_start, number)
    for callback in tuple(_listeners):
        callback()


class tag:  # noqa: N801 - reads as a noun in a with statement
    """Label what the current thread allocates in a block of code or in a function.

    ::

        with gpumemprof.tag("kv_cache"): ...

    Tags nest; the innermost one applies.
    """

    def __init__(self, name: str) -> None:
        if not isinstance(name, str) or not name:
            raise UsageError(f"a tag must be a non-empty string, not {name!r}", "usage")
        self.name = name
        self._outer = threading.local()

    def __enter__(self) -> tag:
        outer: list[int] = self._outer.__dict__.setdefault("tags", [])
        outer.append(_core.capture_enter_tag(self.name))
        return self

    def __exit__(self, *_: object) -> None:
        _core.capture_leave_tag(self._outer.tags.pop())

    def __call__(self, function: _Function) -> _Function:
        @functools.wraps(function)
        def tagged(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return tagged  # type: ignore[return-value]
