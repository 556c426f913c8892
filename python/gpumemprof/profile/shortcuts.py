"""profile_function and profile_context: one-line profiling with a shared profiler."""

from __future__ import annotations

import functools
import inspect
import os
import threading
from typing import Any, Callable, TypeVar, overload

from gpumemprof.profile.memory_profiler import MemoryProfiler
from gpumemprof.profile.profiler import CPUMemoryProfiler, GPUMemoryProfiler
from gpumemprof.profile.scopes import ProfiledContext, runs_later
from gpumemprof.torch_calls.devices import why_no_cuda

__all__ = ["default_profiler", "profile_context", "profile_function"]

_Function = TypeVar("_Function", bound=Callable[..., Any])

_lock = threading.Lock()
_defaults: dict[str, MemoryProfiler] = {}


def _forget_lock() -> None:
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_forget_lock)


def default_profiler(device: Any = None) -> MemoryProfiler:
    """Return the profiler that `profile_function` and `profile_context` use, created on first use.

    It profiles the given device; by default the current CUDA device, or CPU tensors if there is no
    CUDA.

    >>> default_profiler("cpu") is default_profiler("cpu")  # doctest: +SKIP
    True

    Args:
        device: as for `GPUMemoryProfiler`, or ``"cpu"``.
    """
    with _lock:
        key = "" if device is None else str(device)
        if key not in _defaults:
            on_cpu = why_no_cuda() is not None if device is None else key == "cpu"
            _defaults[key] = CPUMemoryProfiler() if on_cpu else GPUMemoryProfiler(device)
        return _defaults[key]


@overload
def profile_function(function: _Function, /) -> _Function: ...
@overload
def profile_function(
    *,
    name: str | None = None,
    device: Any = None,
    profiler: MemoryProfiler | None = None,
    synchronize: bool | None = None,
) -> Callable[[_Function], _Function]: ...
def profile_function(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    device: Any = None,
    profiler: MemoryProfiler | None = None,
    synchronize: bool | None = None,
) -> Any:
    """Profile every call of a function; the function still returns its own value.

    ::

        @profile_function
        def train_step(model, data): ...


        @profile_function(name="validation", device="cuda:1")
        def validate(model, data): ...

    >>> @profile_function(device="cpu")  # doctest: +SKIP
    ... def double(x):
    ...     return x * 2

    Results are in ``default_profiler().results``, or in those of the given profiler. For a
    coroutine function, the whole run is profiled, including everything else that runs meanwhile.

    Args:
        function: the function to profile, when used without parentheses.
        name: the name to use in results; the function's ``__name__`` by default.
        device: which device to profile; see `default_profiler`.
        profiler: the profiler to use instead of the default one.
        synchronize: wait for the device at both ends; the profiler's own setting by default.
    """

    def profiled(inner: Callable[..., Any]) -> Callable[..., Any]:
        if not callable(inner):
            raise TypeError(f"profile_function decorates a function, and {inner!r} is not one")
        if runs_later(inner) and not inspect.iscoroutinefunction(inner):
            raise TypeError(
                f"{getattr(inner, '__name__', inner)} is a generator function, which runs only "
                "when it is iterated: profile the loop with profile_context()"
            )
        called = name or str(getattr(inner, "__name__", type(inner).__name__))

        def begin() -> tuple[MemoryProfiler, Any]:
            used = profiler if profiler is not None else default_profiler(device)
            waits = used.synchronize if synchronize is None else synchronize
            return used, used._begin(called, waits)

        if inspect.iscoroutinefunction(inner):

            @functools.wraps(inner)
            async def run_async(*args: Any, **kwargs: Any) -> Any:
                used, opened = begin()
                try:
                    value = await inner(*args, **kwargs)
                except BaseException as error:
                    used._end(opened, error)
                    raise
                used._end(opened, None)
                return value

            return run_async

        @functools.wraps(inner)
        def run(*args: Any, **kwargs: Any) -> Any:
            used, opened = begin()
            try:
                value = inner(*args, **kwargs)
            except BaseException as error:
                used._end(opened, error)
                raise
            used._end(opened, None)
            return value

        return run

    return profiled if function is None else profiled(function)


def profile_context(
    name: str = "context",
    *,
    device: Any = None,
    profiler: MemoryProfiler | None = None,
    synchronize: bool | None = None,
) -> ProfiledContext:
    """Profile a block of code with the default profiler.

    >>> with profile_context("load", device="cpu") as context:  # doctest: +SKIP
    ...     data = torch.randn(1000)
    >>> context.result.memory_allocated  # doctest: +SKIP
    4000

    Args:
        name: the name to use in results and summaries.
        device: which device to profile; see `default_profiler`.
        profiler: the profiler to use instead of the default one.
        synchronize: wait for the device at both ends; the profiler's own setting by default.
    """
    used = profiler if profiler is not None else default_profiler(device)
    return used.profile_context(name, synchronize=synchronize)
