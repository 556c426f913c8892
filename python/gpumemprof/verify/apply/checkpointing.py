"""Checkpointing of the modules of one class: backward recomputes their activations."""

from __future__ import annotations

import functools
import weakref
from collections import defaultdict
from typing import Any, Callable

from gpumemprof.torch_calls.modules import live_modules
from gpumemprof.verify.apply.calls import watch_roots
from gpumemprof.verify.apply.effect import Effect, Request

__all__ = ["Checkpointing"]

_MOST_SEARCHES = 8
# What selective checkpointing keeps instead of recomputing: matrix products and attention.
_KEPT = (
    *("mm", "addmm", "bmm", "convolution"),
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_cudnn_attention",
    "_scaled_dot_product_flash_attention_for_cpu",
)


class Checkpointing:
    """Looks for the modules whenever it sees a new root called."""

    def __init__(self, effect: Effect, request: Request) -> None:
        self._effect = effect
        self._class_name = request.checkpoint_class
        self._blocks = request.checkpoint_blocks
        self._of = request.checkpoint_of
        self._seen: weakref.WeakSet[Any] = weakref.WeakSet()
        self._checkpointed: weakref.WeakSet[Any] = weakref.WeakSet()
        self._classes: set[type] = set()
        self._searches = 0
        effect.what = "no module was called"

    def start(self) -> None:
        """Install it."""
        watch_roots(self._before_root)

    def _before_root(self, root: Any) -> None:
        if root in self._seen or self._searches >= _MOST_SEARCHES:
            return
        self._searches += 1
        modules = live_modules()
        self._seen.update(modules)
        if self._ask_models(modules):
            return
        chosen = self._wanted(self._choose(modules))
        found = [module for module in chosen if module not in self._checkpointed]
        for module in found:
            self._apply(module)
        if found:
            self._effect.count += len(found)
            self._effect.what = f"{self._effect.count} modules of class {type(found[0]).__name__}"

    def _wanted(self, modules: list[Any]) -> list[Any]:
        """The blocks that were asked for; all, if these are other modules than those counted."""
        if self._blocks is None or len(modules) != self._of:
            return modules
        return [modules[number] for number in self._blocks if number < len(modules)]

    def _options(self) -> dict[str, Any]:
        """The keyword arguments for ``checkpoint``."""
        options: dict[str, Any] = {"use_reentrant": False}
        if self._effect.name == "checkpointing_selective":
            import torch
            from torch.utils.checkpoint import create_selective_checkpoint_contexts

            known = [getattr(torch.ops.aten, name, None) for name in _KEPT]
            kept = [operation.default for operation in known if operation is not None]
            options["context_fn"] = functools.partial(create_selective_checkpoint_contexts, kept)
        return options

    def _ask_models(self, modules: list[Any]) -> bool:
        """Use the model's own switch if it has one: it knows what else must change, such as caches.

        ``gradient_checkpointing_enable`` is the name transformers introduced and others adopted.
        """
        is_done = False
        for model in _outermost([module for module in modules if _has_switch(module)]):
            layers = [part for part in model.modules() if _is_layer(part)]
            name = self._class_name
            chosen = [part for part in layers if name is None or _is_of_class(part, name)]
            chosen = self._wanted(chosen)
            if name is not None and not chosen:
                continue
            is_done = True
            if getattr(model, "is_gradient_checkpointing", False):
                self._effect.what = "the program already checkpoints"
                continue
            model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=self._options())
            for layer in layers:
                layer.gradient_checkpointing = layer in chosen
            self._effect.count += len(chosen) or 1
            self._effect.what = f"{type(model).__name__}.gradient_checkpointing_enable()"
            if chosen:
                self._effect.what += f" for {len(chosen)} modules of class "
                self._effect.what += ", ".join(sorted({type(part).__name__ for part in chosen}))
        return is_done

    def _choose(self, modules: list[Any]) -> list[Any]:
        if self._class_name is None:
            found = most_repeated(modules)
            why = "no class of modules is repeated in a ModuleList or Sequential; name one with "
            why += "--checkpoint-class"
        else:
            name = self._class_name
            found = _outermost([module for module in modules if _is_of_class(module, name)])
            why = f"there is no module of class {self._class_name}"
        if not found and self._effect.count == 0:
            self._effect.what = why
        return found

    def _apply(self, module: Any) -> None:
        self._checkpointed.add(module)
        options = self._options()
        if "forward" in vars(module):
            module.forward = _checkpointed(module.forward, options)
            return
        # Patch the class, not the module, so that copies and pickles of modules are unaffected.
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
            return _checkpointed(functools.partial(forward, self), options)(*args, **kwargs)

        kind.forward = forward_or_checkpoint


def _checkpointed(forward: Callable[..., Any], options: dict[str, Any]) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        import torch
        from torch.utils.checkpoint import checkpoint

        if not torch.is_grad_enabled():
            return forward(*args, **kwargs)
        return checkpoint(functools.partial(forward, **kwargs), *args, **options)

    return run


def _has_switch(module: Any) -> bool:
    is_there = callable(getattr(type(module), "gradient_checkpointing_enable", None))
    return is_there and bool(getattr(module, "supports_gradient_checkpointing", False))


def _is_layer(module: Any) -> bool:
    """Whether it is one of the layers that such a model checkpoints."""
    return getattr(type(module), "gradient_checkpointing", None) is False


def _is_of_class(module: Any, name: str) -> bool:
    """Whether its class has this name, with or without the module path in front."""
    kind = type(module)
    return name in (kind.__name__, kind.__qualname__, f"{kind.__module__}.{kind.__qualname__}")


def _outermost(modules: list[Any]) -> list[Any]:
    """Those that are not contained in any other of them."""
    inner = {id(part) for module in modules for part in module.modules() if part is not module}
    return [module for module in modules if id(module) not in inner]


def most_repeated(modules: list[Any]) -> list[Any]:
    """The largest set of modules of one class held in lists; each must contain modules."""
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
