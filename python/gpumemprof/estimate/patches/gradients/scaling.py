"""Gradient scaling: a GPU skips steps of the optimizer until the scaled gradients are finite.

Which steps it skips depends on values. Mostly none is skipped here, so the state that an optimizer
makes in its first step may come later on a GPU, or not at all within a few steps.

Where a loss has a large factor, as the 50 of ELECTRA, the first steps are skipped: the gradient of
the last bias is a mean of (prediction - label), about a third where the network knows nothing,
times the factor and the scale, and half precision ends at 65,504. Each skipped step halves the
scale.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.amp.grad_scaler import GradScaler

from gpumemprof.estimate.engine.device import Device
from gpumemprof.estimate.engine.fake_mode import outside_modes
from gpumemprof.estimate.engine.reading.answers import Answers
from gpumemprof.estimate.patches.patcher import Patcher

__all__ = ["install"]

_LARGE_FACTOR = 10.0
_USUAL_GRADIENT = 0.35
_LARGEST_HALF = 65504.0
# How far a loss is followed to the losses that it is a sum of.
_MOST_NODES = 200
_SUMS = ("Add", "Sub", "Neg", "Stack", "Sum", "ToCopy", "View", "Squeeze")


def install(patcher: Patcher, answers: Answers, device: Device) -> None:
    step, scale = GradScaler._maybe_opt_step, GradScaler.scale
    enter = torch.autocast.__enter__
    has_half = False

    def note_half(autocast: Any) -> Any:
        nonlocal has_half
        has_half |= autocast.fast_dtype == torch.float16 and autocast._enabled
        return enter(autocast)

    def note_factor(scaler: Any, outputs: Any) -> Any:
        if isinstance(outputs, torch.Tensor):
            scaler.__dict__["_factor"] = largest_factor(outputs)
        return scale(scaler, outputs)

    def maybe_opt_step(scaler: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        if has_half and _overflows(scaler):
            _skip(scaler, optimizer, device)
            return None
        is_first = not optimizer.state
        result = step(scaler, optimizer, *args, **kwargs)
        if is_first:
            answers.doubt_first_scaled_step(_tensors(optimizer.state))
        return result

    patcher.set(torch.autocast, "__enter__", note_half)
    patcher.set(GradScaler, "scale", note_factor)
    patcher.set(GradScaler, "_maybe_opt_step", maybe_opt_step)


def largest_factor(loss: torch.Tensor) -> float:
    """The largest number that a part of a loss is multiplied by."""
    nodes = [(loss.grad_fn, 1.0)]
    largest = 1.0
    for _ in range(_MOST_NODES):
        if not nodes:
            break
        node, factor = nodes.pop(0)
        if node is None:
            continue
        name = node.name()
        if name.startswith(("Mul", "Div")):
            number = _constant(node)
            factor = factor / number if name.startswith("Div") else factor * number
        elif not name.startswith(_SUMS):
            continue
        largest = max(largest, factor)
        nodes += [(each, factor) for each, _ in node.next_functions]
    return largest


def _constant(node: Any) -> float:
    """The constant that the operation multiplies or divides by; 1 if it is not a constant."""
    found: Any = getattr(node, "_saved_other", None)
    if type(found) is not torch.Tensor or found.dim() or found.is_complex():
        return 1.0
    with outside_modes():
        return abs(float(found)) or 1.0


def _overflows(scaler: Any) -> bool:
    factor = scaler.__dict__.get("_factor", 1.0)
    scale = scaler._init_scale * scaler._backoff_factor ** scaler.__dict__.get("_skipped", 0)
    return bool(factor >= _LARGE_FACTOR and scale * factor * _USUAL_GRADIENT > _LARGEST_HALF)


def _skip(scaler: Any, optimizer: Any, device: Device) -> None:
    skipped = scaler.__dict__["_skipped"] = scaler.__dict__.get("_skipped", 0) + 1
    device.note(
        "behaviour",
        f"scaled gradients were taken to be infinite, since the loss has the factor "
        f"{scaler._factor:g}, so that this step is skipped; where they are finite, the optimizer "
        "makes its state here",
    )
    if skipped == 1 and not optimizer.state:
        device.change_doubt(_state_bytes(optimizer), 0)


def _state_bytes(optimizer: Any) -> int:
    """What its first step would keep: one or two tensors a parameter, as most optimizers."""
    return sum(
        (2 if "betas" in group else 1) * parameter.nbytes
        for group in optimizer.param_groups
        for parameter in group["params"]
    )


def _tensors(state: Any) -> Iterator[torch.Tensor]:
    for of_parameter in state.values():
        if isinstance(of_parameter, dict):
            for value in of_parameter.values():
                if isinstance(value, torch.Tensor):
                    yield value
