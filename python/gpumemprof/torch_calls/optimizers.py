"""Hooks around the steps of optimizers."""

from __future__ import annotations

from typing import Any, Callable

from gpumemprof import _core

__all__ = ["after_steps", "watch_optimizers"]


def watch_optimizers(
    before: Callable[[Any], None],
    after: Callable[[Any, bool], None],
    unchanged: _core.UnchangedSteps | None = None,
) -> list[Any]:
    """Call back around every optimizer's step; returns handles that remove the hooks.

    `after` also receives whether the step ran a closure, which may compute gradients itself. A step
    that matches the previous one goes to `unchanged` alone.
    """
    import torch
    from torch.optim.optimizer import (
        register_optimizer_step_post_hook,
        register_optimizer_step_pre_hook,
    )

    # Checked first, so that a compiled step contains none of our code.
    is_compiling = torch.compiler.is_compiling
    # One that never expects anything leaves every step to the callbacks.
    steps = unchanged or _core.UnchangedSteps()
    seen_before, seen_after = steps.before, steps.after

    def step_pre_hook(optimizer: Any, args: Any, kwargs: Any) -> None:
        if not is_compiling() and not seen_before(optimizer):
            before(optimizer)

    def step_post_hook(optimizer: Any, args: Any, kwargs: Any) -> None:
        if is_compiling():
            return
        has_closure = len(args) > 1 or (kwargs and kwargs.get("closure") is not None)
        if has_closure or not seen_after(optimizer):
            after(optimizer, has_closure)

    return [
        register_optimizer_step_pre_hook(step_pre_hook),
        register_optimizer_step_post_hook(step_post_hook),
    ]


def after_steps(callback: Callable[[], None]) -> Any:
    """Call back after every optimizer's step; returns a handle that removes the hook."""
    import torch
    from torch.optim.optimizer import register_optimizer_step_post_hook

    is_compiling = torch.compiler.is_compiling

    def step_post_hook(optimizer: Any, args: Any, kwargs: Any) -> None:
        if not is_compiling():
            callback()

    return register_optimizer_step_post_hook(step_post_hook)
