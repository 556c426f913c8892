"""Autocast around forward and loss, as ``with torch.autocast(…):`` around both would do."""

from __future__ import annotations

import functools
import threading
from typing import Any

from gpumemprof.torch_calls.optimizers import watch_optimizers
from gpumemprof.verify.apply.calls import is_inside_root, watch_roots
from gpumemprof.verify.apply.effect import Effect

__all__ = ["Autocast"]


class Autocast:
    """On from the call of a root module until backward begins, so that it covers the loss.

    Without gradients no backward follows, so it covers the call alone. The same holds for other
    threads, which have their own autocast state.
    """

    def __init__(self, effect: Effect, memory: str) -> None:
        self._effect = effect
        self._memory = memory
        self._thread = threading.local()
        effect.what = "no module was called"

    def start(self) -> None:
        """Install it."""
        import torch

        watch_roots(self._before_root, self._after_root)
        watch_optimizers(lambda _: self._leave(), lambda *_: None)
        for name in ("backward", "grad"):
            setattr(torch.autograd, name, self._after_leaving(getattr(torch.autograd, name)))

    def _after_leaving(self, run_backward: Any) -> Any:
        @functools.wraps(run_backward)
        def leave_and_run(*args: Any, **kwargs: Any) -> Any:
            # Inside a forward, it belongs to that forward, or to a running compiler.
            if not is_inside_root():
                self._leave()
            return run_backward(*args, **kwargs)

        return leave_and_run

    def _before_root(self, module: Any) -> None:
        import torch

        context = getattr(self._thread, "context", None)
        if context is not None and self._thread.has_gradients != torch.is_grad_enabled():
            # Casts of weights are cached; those made without gradients would be reused with them.
            self._leave()
            context = None
        if context is not None:
            return
        if torch.is_autocast_enabled(self._memory):
            if self._effect.count == 0:
                self._effect.what = "the program already uses autocast"
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
