"""Applies remedies to a program from outside, without changing its source.

Only in a process that ``gpumemprof advise --verify`` starts for this purpose: torch itself is
patched in it, to do what an edit of the program would. Every remedy counts what it changed, so that
runs are compared only if something changed.
"""

from __future__ import annotations

from gpumemprof.verify.apply.autocast import Autocast
from gpumemprof.verify.apply.checkpointing import Checkpointing
from gpumemprof.verify.apply.effect import Effect, Request
from gpumemprof.verify.apply.loop import EmptyCache, ZeroGradToNone
from gpumemprof.verify.apply.stepping import Stepping

__all__ = ["NAMES", "NEEDS_CUDA", "Effect", "Request", "start"]

NAMES = (
    "checkpointing",
    "checkpointing_selective",
    "autocast_bf16",
    "autocast_fp16",
    "foreach_off",
    "fused",
    "zero_grad_to_none",
    "empty_cache",
    "expandable_segments",
)
"""What can be applied from outside; ``expandable_segments`` by the environment alone."""
NEEDS_CUDA = ("empty_cache", "expandable_segments")
"""The CPU's memory has no pool."""


def start(request: Request) -> list[Effect]:
    """Apply them once torch is imported; each effect holds its outcome at the end."""
    effects = []
    for name in request.remedies:
        effect = Effect(name)
        if name in ("checkpointing", "checkpointing_selective"):
            Checkpointing(effect, request.checkpoint_class).start()
        elif name in ("autocast_bf16", "autocast_fp16"):
            Autocast(effect, request.memory).start()
        elif name in ("foreach_off", "fused"):
            Stepping(effect).start()
        elif name == "zero_grad_to_none":
            ZeroGradToNone(effect).start()
        elif name == "empty_cache":
            EmptyCache(effect).start()
        else:
            effect.count, effect.what = 1, "set in the environment"
        effects.append(effect)
    return effects
