"""Phases of a program, as marks in the recordings that are open: evaluation, saving, and others."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Callable

from gpumemprof import _core

__all__ = ["Phases", "in_phase", "phase"]


@contextmanager
def phase(name: str) -> Iterator[None]:
    """Mark a part of the program; the viewer and reports show it by this name.

    ::

        with phase("evaluation"):
            evaluate(model)
    """
    _core.capture_mark(name, True)
    try:
        yield
    finally:
        _core.capture_mark(name, False)


def in_phase(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, marked as a phase whenever it runs."""

    @functools.wraps(function)
    def marked(*args: Any, **kwargs: Any) -> Any:
        with phase(name):
            return function(*args, **kwargs)

    return marked


class Phases:
    """For tools that report the ends of their phases one by one; at most one is open."""

    def __init__(self) -> None:
        self._open: str | None = None

    def begin(self, name: str) -> None:
        """Begin a phase, unless it is open; the one before ends."""
        if self._open == name:
            return
        self.end()
        _core.capture_mark(name, True)
        self._open = name

    def end(self) -> None:
        """End the phase that is open, if one is."""
        if self._open is not None:
            _core.capture_mark(self._open, False)
            self._open = None
