"""Checkpointing of the modules of one class: their activations are computed again in backward."""

from __future__ import annotations

import functools
import weakref
from collections import defaultdict
from typing import Any, Callable

from gpumemprof import _torch
from gpumemprof.applied.calls import watch_roots
from gpumemprof.applied.effect import Effect

__all__ = ["Checkpointing"]

_MOST_SEARCHES = 8


class Checkpointing:
    """Looks for the modules when a root is called that it has not seen."""

    def __init__(self, effect: Effect, class_name: str | None) -> None:
        self._effect = effect
        self._class_name = class_name
        self._seen: weakref.WeakSet[Any] = weakref.WeakSet()
        self._checkpointed: weakref.WeakSet[Any] = weakref.WeakSet()
        self._classes: set[type] = set()
        self._searches = 0
        effect.what = "no module was called"

    def start(self) -> None:
        """Put it in place."""
        watch_roots(self._before_root)

    def _before_root(self, root: Any) -> None:
        if root in self._seen or self._searches >= _MOST_SEARCHES:
            return
        self._searches += 1
        modules = _torch.live_modules()
        self._seen.update(modules)
        if self._class_name is None and _ask_models(modules, self._effect):
            return
        found = [module for module in self._choose(modules) if module not in self._checkpointed]
        for module in found:
            self._apply(module)
        if found:
            self._effect.count += len(found)
            self._effect.what = f"{self._effect.count} modules of class {type(found[0]).__name__}"

    def _choose(self, modules: list[Any]) -> list[Any]:
        if self._class_name is None:
            found = most_repeated(modules)
            why = "no class of modules is repeated in a ModuleList or Sequential; name one with "
            why += "--checkpoint-class"
        else:
            found = outermost_of_class(modules, self._class_name)
            why = f"there is no module of class {self._class_name}"
        if not found and self._effect.count == 0:
            self._effect.what = why
        return found

    def _apply(self, module: Any) -> None:
        self._checkpointed.add(module)
        if _use_own_switch(module):
            return
        if "forward" in vars(module):
            module.forward = _checkpointed(module.forward)
            return
        # In the class, not the module: copies of modules and their pickles stay what they are.
        kind = type(module)
        if kind in self._classes:
            return
        self._classes.add(kind)
        forward = kind.forward
        ours = self._checkpointed

        @functools.wraps(forward)
        def forward_or_checkpoint(self: Any, *args: Any, **kwargs: Any) -> Any:
            if self not in ours:
                return forward(self, *args, **kwargs)
            return _checkpointed(functools.partial(forward, self))(*args, **kwargs)

        kind.forward = forward_or_checkpoint


def _checkpointed(forward: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        import torch
        from torch.utils.checkpoint import checkpoint

        if not torch.is_grad_enabled():
            return forward(*args, **kwargs)
        return checkpoint(functools.partial(forward, **kwargs), *args, use_reentrant=False)

    return run


def _ask_models(modules: list[Any], effect: Effect) -> bool:
    """Switch it on where models have a switch: they know what else has to change, caches above all.

    ``gradient_checkpointing_enable`` is the name that transformers gave it, and others took over.
    """
    models = [module for module in modules if _has_switch(module)]
    inner = {id(part) for model in models for part in model.modules() if part is not model}
    for model in models:
        if id(model) in inner:
            continue
        if getattr(model, "is_gradient_checkpointing", False):
            effect.what = "the program checkpoints already"
            continue
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        blocks = [part for part in model.modules() if vars(part).get("gradient_checkpointing")]
        effect.count += len(blocks) or 1
        effect.what = f"{type(model).__name__}.gradient_checkpointing_enable()"
    return bool(models)


def _has_switch(module: Any) -> bool:
    is_there = callable(getattr(type(module), "gradient_checkpointing_enable", None))
    return is_there and bool(getattr(module, "supports_gradient_checkpointing", False))


def _use_own_switch(module: Any) -> bool:
    """A layer of transformers has a switch of its own, which also keeps caches out."""
    from torch.utils.checkpoint import checkpoint

    if getattr(type(module), "gradient_checkpointing", None) is not False:
        return False
    module.gradient_checkpointing = True
    module._gradient_checkpointing_func = functools.partial(checkpoint, use_reentrant=False)
    return True


def outermost_of_class(modules: list[Any], name: str) -> list[Any]:
    """Modules whose class has this name, or this name with its module's before it."""

    def is_named(module: Any) -> bool:
        kind = type(module)
        return name in (kind.__name__, kind.__qualname__, f"{kind.__module__}.{kind.__qualname__}")

    found = [module for module in modules if is_named(module)]
    inner = {id(part) for module in found for part in module.modules() if part is not module}
    return [module for module in found if id(module) not in inner]


def most_repeated(modules: list[Any]) -> list[Any]:
    """The largest set of modules of one class that lists hold; each must have modules in it."""
    import torch

    by_class: dict[type, dict[int, Any]] = defaultdict(dict)
    for holder in modules:
        if not isinstance(holder, (torch.nn.ModuleList, torch.nn.Sequential)):
            continue
        for child in holder:
            has_parts = next(iter(child.children()), None) is not None
            if has_parts and any(parameter.requires_grad for parameter in child.parameters()):
                by_class[type(child)][id(child)] = child
    largest = max(by_class.values(), key=len, default={})
    return list(largest.values()) if len(largest) > 1 else []
