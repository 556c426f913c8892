"""Modules of torch.nn: which are alive, which are being called, and hooks on their forward."""

from __future__ import annotations

import functools
import gc
import sys
from types import FrameType
from typing import Any, Callable

from gpumemprof import _core

__all__ = [
    "called_modules",
    "follow_modules",
    "is_in_backward",
    "is_module",
    "live_modules",
    "two_nodes",
    "watch_forward",
    "watch_module",
]


def two_nodes() -> tuple[Any, Any]:
    """Two autograd nodes created in sequence, on the CPU, whatever modes the program is in."""
    import torch

    with torch.inference_mode(False), torch.enable_grad():
        leaf = torch.ones((), device="cpu", requires_grad=True)
        first = leaf * 1
        return first.grad_fn, (first * 1).grad_fn


def follow_modules() -> None:
    """Let the recorder read the module of each call from its frame.

    Raises:
        RuntimeError: what is read does not match what Python reports.
    """
    import torch

    call: Any = torch.nn.Module.__call__
    code = call.__code__

    # Not real modules, so that no hook of the program sees these calls.
    class Called:
        _compiled_call_impl = None

        def __init__(self, inside: Any = None) -> None:
            self._inside = inside

        def _call_impl(self) -> list[int]:
            return _core.capture_own_modules(code) if self._inside is None else call(self._inside)

    for _ in range(2):
        inner = Called()
        outer = Called(inner)
        if call(outer)[:2] != [id(inner), id(outer)]:
            raise RuntimeError("this Python or torch stores a call's module elsewhere")
    _core.capture_follow_modules(code)


def called_modules() -> list[Any]:
    """The modules this thread is executing, innermost first."""
    import torch

    call: Any = torch.nn.Module.__call__
    module_type = torch.nn.Module
    called = _core.capture_called_modules(call.__code__)
    return [module for module in called if issubclass(type(module), module_type)]


def live_modules() -> list[Any]:
    """All live modules; slow."""
    import torch

    module_type = torch.nn.Module
    # Check the type itself: isinstance() would call into proxies, which may do anything.
    return [thing for thing in gc.get_objects() if issubclass(type(thing), module_type)]


def is_module(thing: Any) -> bool:
    """Whether it is a module, whatever it says itself."""
    import torch

    return issubclass(type(thing), torch.nn.Module)


def is_in_backward() -> bool:
    """Whether autograd is running in this thread, as when it recomputes a checkpoint."""
    import torch

    return bool(torch._C._current_graph_task_id() != -1)


def _keywords_of_call() -> dict[str, Any]:
    """The keyword arguments of the module call that runs our hook, which does not receive them."""
    frame: FrameType | None = sys._getframe(2)
    for _ in range(2):
        if frame is not None and frame.f_code.co_name in ("inner", "_call_impl"):
            keywords = frame.f_locals.get("kwargs")
            if isinstance(keywords, dict):
                return keywords
        frame = frame.f_back if frame is not None else None
    return {}


class _Restored:
    """Restores torch.compile, unless someone else has replaced it in the meantime."""

    def __init__(self, ours: Any, original: Any) -> None:
        self._ours, self._original = ours, original

    def remove(self) -> None:
        import torch

        if torch.compile is self._ours:
            torch.compile = self._original


def watch_forward(
    before: Callable[[Any, Any, Any], None], compiled: Callable[[Any], None]
) -> list[Any]:
    """Call back before the forward of every module, until the program compiles something.

    A global module hook would be compiled in if it were there while torch compiles, and removing it
    would recompile everything. So `compiled` is called with None just before, and with the compiled
    module just after if the result is one.
    """
    import torch
    from torch.nn.modules.module import register_module_forward_pre_hook

    def forward_pre_hook(module: Any, args: Any) -> None:
        if not torch.compiler.is_compiling():
            before(module, args, _keywords_of_call())

    compile_it = torch.compile

    @functools.wraps(compile_it)
    def compile_without_hooks(*args: Any, **kwargs: Any) -> Any:
        compiled(None)
        result = compile_it(*args, **kwargs)
        if issubclass(type(result), torch.nn.Module):
            compiled(result)
        return result

    torch.compile = compile_without_hooks
    return [
        register_module_forward_pre_hook(forward_pre_hook),
        _Restored(compile_without_hooks, compile_it),
    ]


def watch_module(module: Any, before: Callable[[Any, Any, Any], None]) -> Any:
    """Call back before the forward of one module."""
    import torch

    def forward_pre_hook(module: Any, args: Any, kwargs: Any) -> None:
        if not torch.compiler.is_compiling():
            before(module, args, kwargs)

    return module.register_forward_pre_hook(forward_pre_hook, with_kwargs=True)
