"""Applies remedies to a program from outside, without changing its source.

Only in a process that ``gpumemprof advise --verify`` starts for this purpose: torch itself is
patched in it, to do what an edit of the program would. Every remedy counts what it changed, so that
runs are compared only if something changed.
"""

from __future__ import annotations

from collections.abc import Callable

from gpumemprof import _core
from gpumemprof.verify.apply.autocast import Autocast
from gpumemprof.verify.apply.checkpointing import Checkpointing
from gpumemprof.verify.apply.effect import Effect, Request
from gpumemprof.verify.apply.loop import EmptyCache, ZeroGradToNone
from gpumemprof.verify.apply.stepping import Stepping

__all__ = ["NAMES", "NEEDS_CUDA", "Effect", "Request", "start"]


def _checkpoint(effect: Effect, request: Request) -> None:
    Checkpointing(effect, request).start()


def _autocast(effect: Effect, request: Request) -> None:
    Autocast(effect, request.memory).start()


def _set_stepping(effect: Effect, _request: Request) -> None:
    Stepping(effect).start()


def _zero_to_none(effect: Effect, _request: Request) -> None:
    ZeroGradToNone(effect).start()


def _empty_cache(effect: Effect, _request: Request) -> None:
    EmptyCache(effect).start()


def _by_environment(effect: Effect, _request: Request) -> None:
    effect.count, effect.what = 1, "set in the environment"


_APPLY: dict[str, Callable[[Effect, Request], None]] = {
    "checkpointing": _checkpoint,
    "checkpointing_selective": _checkpoint,
    "autocast_bf16": _autocast,
    "autocast_fp16": _autocast,
    "foreach_off": _set_stepping,
    "fused": _set_stepping,
    "zero_grad_to_none": _zero_to_none,
    "empty_cache": _empty_cache,
    "expandable_segments": _by_environment,
}
"""How each remedy is applied: those that the core marks as verifiable, which a test checks."""

NAMES = tuple(_APPLY)
"""What can be applied from outside."""
NEEDS_CUDA = tuple(entry.name for entry in _core.remedies() if entry.needs_pool)
"""CPU memory has no pool."""


def start(request: Request) -> list[Effect]:
    """Apply them once torch is imported; each effect holds its outcome at the end."""
    effects = [Effect(name) for name in request.remedies]
    for effect in effects:
        _APPLY[effect.name](effect, request)
    return effects
