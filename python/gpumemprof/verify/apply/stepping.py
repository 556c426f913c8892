"""How optimizers step: one parameter at a time, or in a fused kernel."""

from __future__ import annotations

from typing import Any

from gpumemprof.torch_calls.optimizers import watch_optimizers
from gpumemprof.verify.apply.effect import Effect

__all__ = ["Stepping"]


class Stepping:
    """Before each step, sets in every parameter group what the constructor would have set."""

    def __init__(self, effect: Effect) -> None:
        self._effect = effect
        self._is_fused = effect.name == "fused"
        self._seen: set[int] = set()
        effect.what = "no optimizer step was made"

    def start(self) -> None:
        """Install it."""
        watch_optimizers(self._before_step, lambda *_: None)

    def _before_step(self, optimizer: Any) -> None:
        groups = optimizer.param_groups
        obstacle = self._obstacle(optimizer)
        if obstacle is None:
            for group in groups:
                group.update(foreach=False, fused=self._is_fused)
            optimizer.defaults.update(foreach=False, fused=self._is_fused)
        if id(optimizer) in self._seen:
            return
        self._seen.add(id(optimizer))
        if obstacle is None:
            self._effect.count += len(groups)
            kind = type(optimizer).__name__
            plural = "" if len(groups) == 1 else "s"
            self._effect.what = f"{kind} with {len(groups)} group{plural} of parameters"
        elif self._effect.count == 0:
            self._effect.what = obstacle

    def _obstacle(self, optimizer: Any) -> str | None:
        import torch
        from torch.optim import optimizer as of_torch

        kind = type(optimizer).__name__
        groups = optimizer.param_groups
        if any("foreach" not in group for group in groups):
            return f"{kind} has no foreach or fused option"
        if not self._is_fused:
            is_set = any(group["foreach"] or group.get("fused") for group in groups)
            choose = getattr(of_torch, "_default_to_fused_or_foreach", None)
            if id(optimizer) in self._seen or is_set or choose is None:
                return None
            is_default = any(
                group["foreach"] is None and any(choose(group["params"], False, False))
                for group in groups
            )
            return None if is_default else f"{kind} already updates one parameter at a time"
        if any("fused" not in group for group in groups):
            return f"{kind} has no fused kernel"
        if id(optimizer) not in self._seen and all(group["fused"] for group in groups):
            return f"{kind} already uses a fused kernel"
        parameters = [parameter for group in groups for parameter in group["params"]]
        if not all(torch.is_floating_point(parameter) for parameter in parameters):
            return f"{kind} has parameters that a fused kernel cannot update"
        return None
