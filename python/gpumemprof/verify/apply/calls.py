"""Calls of the program's root modules: those that no other module calls."""

from __future__ import annotations

import threading
from typing import Any, Callable

from gpumemprof.torch_calls.modules import is_in_backward

__all__ = ["is_inside_root", "watch_roots"]


class _Calls:
    """Wraps every module call; cheap inside a root."""

    def __init__(self) -> None:
        self.before: list[Callable[[Any], None]] = []
        self.after: list[Callable[[], None]] = []
        self._thread = threading.local()

    def start(self) -> None:
        import torch

        call_module: Callable[..., Any] = torch.nn.Module.__call__
        is_compiling = torch.compiler.is_compiling
        module_type = torch.nn.Module

        # A forward hook runs too late: torch has already looked up the module's forward.
        def call(module: Any, *args: Any, **kwargs: Any) -> Any:
            # The recorder's self-test calls objects that are not modules.
            is_module = issubclass(type(module), module_type)
            # What backward recomputes starts in the middle of a root.
            if is_compiling() or self.is_inside() or not is_module or is_in_backward():
                return call_module(module, *args, **kwargs)
            self._thread.is_inside = True
            try:
                for tell_before in self.before:
                    tell_before(module)
                return call_module(module, *args, **kwargs)
            finally:
                self._thread.is_inside = False
                for tell_after in self.after:
                    tell_after()

        setattr(torch.nn.Module, "__call__", call)  # noqa: B010 - a method, to type checkers

    def is_inside(self) -> bool:
        return getattr(self._thread, "is_inside", False)


_calls = _Calls()


def watch_roots(before: Callable[[Any], None], after: Callable[[], None] | None = None) -> None:
    """Call back around every call of a root module, outside of compiled code."""
    if not _calls.before:
        _calls.start()
    _calls.before.append(before)
    if after is not None:
        _calls.after.append(after)


def is_inside_root() -> bool:
    """Whether this thread is inside a call of a root module; only once roots are watched."""
    return _calls.is_inside()
