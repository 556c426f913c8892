"""L-BFGS: values decide how many steps it makes, what it keeps of them, and how far it searches.

It ends at once where gradients are small, keeps a step only if the curvature is large enough, and
its line search may evaluate the program again and hold more gradients meanwhile. Here every step is
made, and the first place that is tried is accepted; the band covers the rest.

Steps of networks are kept, and those of sums. Those of a mean over many numbers that are optimised
themselves, as the pixels of an image, are not: gradients and curvatures are about 1/N each, so the
product that must exceed 1e-10 is about 1/N².
"""

from __future__ import annotations

import contextlib
import functools
import gc
from typing import Any

import torch

from gpumemprof.estimate.engine.device import Device
from gpumemprof.estimate.engine.reading.readings import usual_outcomes
from gpumemprof.estimate.patches.patcher import Patcher

__all__ = ["install"]

# Gradients that a search holds beside those of the first try: a clone of the one before, and the
# two ends of the bracket.
_MORE_GRADIENTS = 3
# What each step that is kept takes: how far it went, and by how much gradients changed.
_KEPT_GRADIENTS = 2
_KEEPS_STEP = "if ys > 1e-10:"
_MANY_NUMBERS = 100_000
# Operations that make one loss of several, and how far they are followed.
_OF_NUMBERS = ("Add", "Sub", "Mul", "Neg", "Sqrt", "Stack", "ToCopy", "View", "Squeeze")
_MOST_NODES = 200


def install(patcher: Patcher, device: Device) -> None:
    kind = torch.optim.LBFGS
    step = kind.step

    @functools.wraps(step)
    def doubting_step(optimizer: Any, closure: Any) -> Any:
        fit = _Fit(optimizer, device)
        with device.assuming(), contextlib.ExitStack() as stack:

            def evaluate() -> Any:
                more = fit.possible_bytes()
                with device.assuming(False), device.in_doubt(more_bytes=more):
                    loss = closure()
                if fit.is_first:
                    fit.decide(loss)
                    stack.enter_context(usual_outcomes({_KEEPS_STEP: fit.keeps}))
                return loss

            return step(optimizer, evaluate)

    patcher.set(kind, "step", doubting_step)


class _Fit:
    """One call of an optimizer's step."""

    def __init__(self, optimizer: Any, device: Device) -> None:
        self._optimizer, self._device = optimizer, device
        self._group = optimizer.param_groups[0]
        self._flat_bytes = sum(each.nbytes for each in self._group["params"])
        self.is_first = True
        self.keeps = True

    def decide(self, loss: Any) -> None:
        """After the first evaluation: whether steps are kept."""
        self.is_first = False
        self.keeps = not (_is_data(self._group["params"]) and is_mean(loss))
        text = "keep each; where values are small, a GPU makes fewer or keeps none"
        if not self.keeps:
            text = (
                "keep none, since it fits many numbers that belong to no layer; where values are "
                "large, a GPU keeps each"
            )
        self._device.note("behaviour", f"L-BFGS was taken to make all of its steps and to {text}")

    def possible_bytes(self) -> int:
        """How much more than predicted may be live while the program computes its loss."""
        if self.is_first:
            return 0
        if not self.keeps:
            self._doubt_kept()
        searches = self._group.get("line_search_fn") is not None
        return _MORE_GRADIENTS * self._flat_bytes if searches else 0

    def _doubt_kept(self) -> None:
        """One more step may have been kept; what is kept stays."""
        state = self._optimizer.__dict__
        kept = state.get("_doubted_steps", 0)
        if kept < int(self._group.get("history_size", 0)):
            state["_doubted_steps"] = kept + 1
            self._device.change_doubt(_KEPT_GRADIENTS * self._flat_bytes, 0)


def is_mean(loss: Any) -> bool:
    """Whether a loss is a mean or made of means. Where its history is unknown: yes."""
    nodes = [loss.grad_fn] if getattr(loss, "grad_fn", None) is not None else []
    if not nodes:
        return True
    for _ in range(_MOST_NODES):
        if not nodes:
            return False
        node = nodes.pop(0)
        name = node.name()
        if name.startswith(("Mean", "Div")) or getattr(node, "_saved_reduction", 0) == 1:
            return True
        if name.startswith(_OF_NUMBERS):
            nodes += [each for each, _ in node.next_functions if each is not None]
    return False


def _is_data(parameters: list[torch.Tensor]) -> bool:
    """Whether the numbers themselves are fitted, as an image is, and not a network's weights."""
    if sum(each.numel() for each in parameters) < _MANY_NUMBERS:
        return False
    if not any(isinstance(each, torch.nn.Parameter) for each in parameters):
        return True
    of_layers = {
        id(parameter)
        for module in gc.get_objects()
        if issubclass(type(module), torch.nn.Module)
        and type(module).__module__.startswith("torch.nn.")
        for parameter in module._parameters.values()
    }
    return not any(id(each) in of_layers for each in parameters)
