"""Autocast around forward and loss, as ``with torch.autocast(…):`` around both would be."""

from __future__ import annotations

import functools
import threading
from typing import Any

from gpumemprof import _torch
from gpumemprof.applied.calls import is_inside_root, watch_roots
from gpumemprof.applied.effect import Effect

__all__ = ["Autocast"]


class Autocast:
    """On from a root module's call until backward begins, so that the loss lies inside.

    Without gradients no backward follows: then for the call alone. So it is in other threads, whose
    state is their own.
    """

    def __init__(self, effect: Effect, memory: str) -> None:
        self._effect = effect
        self._memory = memory
        self._thread = threading.local()
        effect.what = "no module was called"

    def start(self) -> None:
        """Put it in place."""
        import torch

        watch_roots(self._before_root, self._after_root)
        _torch.watch_optimizers(lambda _: self._leave(), lambda *_: None)
        for name in ("backward", "grad"):
            setattr(torch.autograd, name, self._after_leaving(getattr(torch.autograd, name)))

    def _after_leaving(self, run_backward: Any) -> Any:
        @functools.wraps(run_backward)
        def leave_and_run(*args: Any, **kwargs: Any) -> Any:
            # Inside of a forward it belongs to the forward, or to a compiler at work.
            if not is_inside_root():
                self._leave()
            return run_backward(*args, **kwargs)

        return leave_and_run

    def _before_root(self, module: Any) -> None:
        import torch

        context = getattr(self._thread, "context", None)
        if context is not None and self._thread.has_gradients != torch.is_grad_enabled():
            # Casts of weights are kept, and those made without gradients would be used for them.
            self._leave()
            context = None
        if context is not None:
            return
        if torch.is_autocast_enabled(self._memory):
            if self._effect.count == 0:
                self._effect.what = "the program uses autocast already"
            return
        half = torch.float16 if self._effect.name == "autocast_fp16" else torch.bfloat16
        self._thread.context = torch.autocast(self._memory, dtype=half)
        self._thread.has_gradients = torch.is_grad_enabled()
        self._thread.context.__enter__()
        self._effect.count += 1
        self._effect.what = f"{self._effect.count} forward passes with their losses"

    def _after_root(self) -> None:
        if threading.current_thread() is threading.main_thread():
            import torch

            if torch.is_grad_enabled():
                return
        self._leave()

    def _leave(self) -> None:
        context = getattr(self._thread, "context", None)
        if context is not None:
            self._thread.context = None
            context.__exit__(None, None, None)
