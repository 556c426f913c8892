"""Calls of the program's root modules: those that no other module makes."""

from __future__ import annotations

import threading
from typing import Any, Callable

from gpumemprof import _torch

__all__ = ["watch_roots"]


class _Calls:
    """Around every call of a module; cheap inside of a root."""

    def __init__(self) -> None:
        self.before: list[Callable[[Any], None]] = []
        self.after: list[Callable[[], None]] = []
        self._thread = threading.local()

    def start(self) -> None:
        import torch

        call_module = torch.nn.Module.__call__
        is_compiling = torch.compiler.is_compiling

        # A forward hook comes too late: torch has looked up the module's forward before it.
        def call(module: Any, *args: Any, **kwargs: Any) -> Any:
            if is_compiling() or self._is_inside():
                return call_module(module, *args, **kwargs)
            self._thread.is_inside = True
            try:
                for told in self.before:
                    told(module)
                return call_module(module, *args, **kwargs)
            finally:
                self._thread.is_inside = False
                for told in self.after:
                    told()

        torch.nn.Module.__call__ = call

    def _is_inside(self) -> bool:
        # What backward computes again, it computes from the middle of a root.
        return getattr(self._thread, "is_inside", False) or _torch.is_in_backward()


_calls = _Calls()


def watch_roots(
    before: Callable[[Any], None], after: Callable[[], None] | None = None
) -> None:
    """Call back around every call of a root module, outside of compiled code."""
    if not _calls.before:
        _calls.start()
    _calls.before.append(before)
    if after is not None:
        _calls.after.append(after)
