"""What a training loop does besides forward, backward and step: zeroing, and emptying the cache."""

from __future__ import annotations

import functools
from typing import Any

from gpumemprof.torch_calls.optimizers import watch_optimizers
from gpumemprof.verify.apply.effect import Effect

__all__ = ["EmptyCache", "ZeroGradToNone"]


class ZeroGradToNone:
    """Makes ``zero_grad()`` drop gradients wherever the program has it fill them with zeros."""

    def __init__(self, effect: Effect) -> None:
        self._effect = effect
        effect.what = "zero_grad() was not called"

    def start(self) -> None:
        """Install it."""
        import torch

        # Both classes define one: a module's drops the gradients of its parameters.
        for kind in (torch.optim.Optimizer, torch.nn.Module):
            setattr(kind, "zero_grad", self._dropping(kind.zero_grad))  # noqa: B010

    def _dropping(self, zero_grad: Any) -> Any:
        @functools.wraps(zero_grad)
        def drop(owner: Any, set_to_none: bool = True) -> Any:
            if not set_to_none:
                self._effect.count += 1
                self._effect.what = f"{self._effect.count} calls to zero_grad()"
            elif self._effect.count == 0:
                self._effect.what = "zero_grad() already drops gradients"
            return zero_grad(owner, set_to_none=True)

        return drop


class EmptyCache:
    """Calls ``empty_cache()`` after every step."""

    def __init__(self, effect: Effect) -> None:
        self._effect = effect
        effect.what = "no optimizer step was made"

    def start(self) -> None:
        """Install it."""
        watch_optimizers(lambda _: None, lambda *_: self._after_step())

    def _after_step(self) -> None:
        import torch

        torch.cuda.empty_cache()
        self._effect.count += 1
        self._effect.what = f"after {self._effect.count} steps"
