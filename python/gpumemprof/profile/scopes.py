"""A profiled block of code, and what is known about it while it runs."""

from __future__ import annotations

import inspect
import os
import traceback
from typing import TYPE_CHECKING, Any, Callable

from gpumemprof.profile.monitored_device import NO_CARD
from gpumemprof.profile.monitoring import AnyScope
from gpumemprof.profile.result import ProfileResult
from gpumemprof.profile.stacks import ScopeRecording

if TYPE_CHECKING:
    from gpumemprof.profile.memory_profiler import MemoryProfiler

__all__ = [
    "OpenProfile",
    "ProfiledContext",
    "device_name",
    "error_text",
    "function_name",
    "own_stack",
    "runs_later",
]


class ProfiledContext:
    """A profiled block of code, made by ``profile_context``; ``result`` is set when it ends.

    >>> profiler = CPUMemoryProfiler()  # doctest: +SKIP
    >>> with profiler.profile_context("load") as context:  # doctest: +SKIP
    ...     batch = next(batches)
    >>> context.result.peak_memory_usage()  # doctest: +SKIP
    """

    def __init__(self, profiler: MemoryProfiler, name: str, synchronize: bool | None) -> None:
        """Use ``profile_context`` instead."""
        self._profiler = profiler
        self._synchronize = profiler.synchronize if synchronize is None else synchronize
        self._open: list[OpenProfile] = []
        self.name = name
        self.result: ProfileResult | None = None
        """The result of the last run of the block; ``None`` before its end."""

    def __enter__(self) -> ProfiledContext:
        """Start profiling."""
        self._open.append(self._profiler._begin(self.name, self._synchronize))
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        """Stop profiling; exceptions propagate."""
        self.result = self._profiler._end(self._open.pop(), error)


class OpenProfile:
    """A scope that has not ended."""

    __slots__ = ("card", "name", "recording", "scope", "stack", "synchronize")

    def __init__(self, name: str, synchronize: bool) -> None:
        self.name = name
        self.synchronize = synchronize
        self.card = NO_CARD
        self.recording: ScopeRecording | None = None
        self.stack: str | None = None
        self.scope: AnyScope


def runs_later(func: Callable[..., Any]) -> bool:
    """Whether a call only makes what runs it: a generator or a coroutine.

    >>> runs_later(max)
    False
    """
    kinds = (inspect.isgeneratorfunction, inspect.isasyncgenfunction, inspect.iscoroutinefunction)
    return any(is_one(func) for is_one in kinds)


def function_name(func: Callable[..., Any]) -> str:
    name = getattr(func, "__name__", None)
    if not isinstance(name, str):
        inner = getattr(func, "func", None)  # functools.partial
        name = getattr(inner, "__name__", None) or type(func).__name__
    return str(name)


def error_text(error: BaseException) -> str:
    # The exception itself would keep the frames of its traceback, and their tensors, alive.
    try:
        text = str(error)
    except Exception:
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def device_name(device: Any) -> str:
    return "cpu:0" if device.type == "cpu" else f"cuda:{device.index}"


def own_stack() -> str:
    frames = traceback.extract_stack()
    while frames and os.path.dirname(frames[-1].filename) == _OUR_FOLDER:  # noqa: PTH120
        frames.pop()
    return "".join(
        f'  File "{frame.filename}", line {frame.lineno}, in {frame.name}\n' for frame in frames
    ).rstrip("\n")


_OUR_FOLDER = os.path.dirname(__file__)  # noqa: PTH120
