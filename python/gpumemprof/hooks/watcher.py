"""Watches the program's modules and optimizers while something is being recorded."""

from __future__ import annotations

import contextlib
import functools
import threading
import warnings
import weakref
from typing import Any, Callable

from gpumemprof import _core
from gpumemprof._core import LabelKind
from gpumemprof.errors import RecordingWarning
from gpumemprof.hooks import collections
from gpumemprof.hooks.modules import Modules
from gpumemprof.hooks.optimizers import WatchedOptimizer
from gpumemprof.hooks.storages import LabelSet, Named, named_storages, tensors_in
from gpumemprof.torch_calls.modules import (
    called_modules,
    is_in_backward,
    watch_forward,
    watch_module,
)
from gpumemprof.torch_calls.optimizers import watch_optimizers
from gpumemprof.torch_calls.tensors import expected_tensors

__all__ = ["Watcher"]

# A hook on every module is expensive, so it is removed after the first calls of the roots. Later
# batches are recognized by the line of the program that produces them.
_CALLS_TO_SEE = 2
_MOST_CALLS = 20_000


@functools.cache
def _validate_tensors() -> None:
    """If this succeeds, addresses are read from torch's own objects; otherwise torch is asked."""
    with contextlib.suppress(Exception):
        _core.capture_validate_tensors(expected_tensors())


class Watcher:
    """Hooks on optimizers, and on modules during the first forward passes."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._modules = Modules()
        self._unchanged = _core.UnchangedSteps()
        self._optimizers: weakref.WeakKeyDictionary[Any, WatchedOptimizer] = (
            weakref.WeakKeyDictionary()
        )
        self._last_optimizer: Callable[[], Any] = lambda: None  # a weak reference
        self._last_watched: WatchedOptimizer | None = None
        self._count = 0
        self._handles: list[Any] = []
        self._forward_handles: list[Any] = []
        self._calls: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._calls_of_modules = 0
        self._is_on = False

    def start(self) -> None:
        """Install the hooks."""
        with self._lock:
            self._is_on = True
            collections.start()
            _validate_tensors()
            try:
                self._handles = watch_optimizers(
                    self._before_step, self._after_step, self._unchanged
                )
                self._forward_handles = watch_forward(self._before_forward, self._compiled)
                _core.capture_describe_with(self._name_called)
            except Exception as error:
                self._give_up(error)

    def stop(self) -> None:
        """Remove them."""
        with self._lock:
            self._is_on = False
            collections.stop()
            self._unchanged.clear()
            _core.capture_describe_with(None)
            self._take_off_forward()
            while self._handles:
                self._handles.pop().remove()

    def emit_all_again(self) -> None:
        """Another recording has started."""
        with self._lock:
            self._modules.reset()
            self._unchanged.clear()
            for watched in list(self._optimizers.values()):
                watched.reset()

    def facts(self) -> dict[str, str]:
        """What is known about the parameters besides their addresses: bytes by type."""
        with self._lock:
            counted = self._modules.parameter_bytes
            return {f"parameter_bytes {name}": str(count) for name, count in counted.items()}

    def emit_last(self, searches: bool) -> None:
        """A recording is ending: report what could not be reported before.

        That is what a failed step used and, if requested, the names of modules that were neither
        called nor optimized.
        """
        with self._lock:
            if not self._is_on:
                return
            try:
                for optimizer, watched in list(self._optimizers.items()):
                    watched.emit_deferred_labels(optimizer)
                if searches:
                    self._modules.find_any()
                self._modules.emit()
            except Exception as error:
                self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        self.stop()
        warnings.warn(
            "parameters, gradients and optimizer state are no longer identified: "
            f"{type(error).__name__}: {error}",
            RecordingWarning,
            stacklevel=4,
        )

    def _watched(self, optimizer: Any) -> WatchedOptimizer:
        # There is usually one; looking it up would take longer than everything else.
        if self._last_watched is not None and self._last_optimizer() is optimizer:
            return self._last_watched
        watched = self._optimizers.get(optimizer)
        if watched is None:
            watched = self._optimizers[optimizer] = WatchedOptimizer(
                self._count, self._modules, self._unchanged
            )
            self._count += 1
        self._last_optimizer, self._last_watched = weakref.ref(optimizer), watched
        return watched

    def _before_step(self, optimizer: Any) -> None:
        with self._lock:
            if not self._is_on:
                return
            try:
                self._watched(optimizer).before_step(optimizer)
            except Exception as error:
                self._give_up(error)

    def _after_step(self, optimizer: Any, has_closure: bool) -> None:
        with self._lock:
            if not self._is_on:
                return
            try:
                self._watched(optimizer).after_step(optimizer, has_closure)
            except Exception as error:
                self._give_up(error)

    def _before_forward(self, module: Any, args: Any, kwargs: Any) -> None:
        """Before the forward of any module, while the hook is installed."""
        with self._lock:
            if not self._is_on or not self._forward_handles:
                return
            try:
                self._see_forward(module, args, kwargs)
            except Exception as error:
                self._give_up(error)

    def _see_forward(self, module: Any, args: Any, kwargs: Any) -> None:
        self._calls_of_modules += 1
        if self._calls_of_modules > _MOST_CALLS:
            self._take_off_forward()
        if self._modules.is_inner(module) or is_in_backward():
            return
        if self._modules.add_root(module):
            self._modules.emit()
        calls = self._calls[module] = self._calls.get(module, 0) + 1
        if calls > _CALLS_TO_SEE:
            if all(count > _CALLS_TO_SEE for count in self._calls.values()):
                self._take_off_forward()
            return
        self._emit_inputs(args, kwargs)

    def _emit_inputs(self, args: Any, kwargs: Any) -> None:
        rows: list[Named] = [
            (LabelKind.input, name.lstrip("."), tensor)
            for name, tensor in (
                *tensors_in(args, "input"),
                *tensors_in(kwargs, ""),
            )
            if tensor.grad_fn is None
        ]
        labels = LabelSet()
        labels.emit(named_storages(rows))
        labels.forget()

    def _name_called(self) -> None:
        """Runs in the main thread, between any two instructions: an unnamed module is executing."""
        # Not while our own code is running; we will be called again.
        if self._lock._is_owned() or not self._lock.acquire(blocking=False):  # type: ignore[attr-defined]
            return
        try:
            called = called_modules() if self._is_on else []
            if called:
                self._modules.see_called(called)
        except Exception as error:
            self._give_up(error)
        finally:
            self._lock.release()

    def _compiled(self, module: Any) -> None:
        """The program compiles: hooks on modules would be compiled in."""
        with self._lock:
            if not self._is_on:
                return
            try:
                # Nor may our own functions run while torch compiles everything that runs.
                _core.capture_describe_with(None)
                self._take_off_forward()
                if module is not None:
                    self._forward_handles = [watch_module(module, self._before_forward)]
            except Exception as error:
                self._give_up(error)

    def _take_off_forward(self) -> None:
        while self._forward_handles:
            self._forward_handles.pop().remove()
