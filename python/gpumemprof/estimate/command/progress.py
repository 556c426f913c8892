"""A line on the terminal that says how far several runs are; nothing if it is not one."""

from __future__ import annotations

import sys
from types import TracebackType

__all__ = ["Progress"]


class Progress:
    """Used in a ``with`` statement; the line is gone at its end."""

    def __init__(self, total: int, is_shown: bool = True) -> None:
        self._total = total
        self._is_shown = is_shown and sys.stderr is not None and sys.stderr.isatty()

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._write("")

    def show(self, done: int, what: str) -> None:
        """The run that is being made."""
        self._write(f"{done + 1} of {self._total}: {what}")

    def _write(self, line: str) -> None:
        if self._is_shown:
            print(f"\r\033[K{line[:79]}", end="", file=sys.stderr, flush=True)
