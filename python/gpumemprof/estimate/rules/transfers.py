"""Copies between the host and the card (ATen/native/cuda/Copy.cu).

Only memory of one type and layout can be sent. Conversions are done on the host, and on the card
if the program does not wait for the copy.
"""

from __future__ import annotations

from typing import Any

import torch

from gpumemprof.estimate.engine.device import Device
from gpumemprof.estimate.rules.table import Call, rule
from gpumemprof.estimate.rules.tensors import fills_its_memory, is_on_card

__all__: list[str] = []


@rule("copy_", certainty="exact")
def copy(device: Device, call: Call, outputs: Any) -> None:
    _send(device, call, call.args[1], call.args[0])


@rule("_to_copy", certainty="exact")
def to(device: Device, call: Call, outputs: Any) -> None:
    _send(device, call, call.args[0], outputs)


def _send(device: Device, call: Call, source: Any, target: Any) -> None:
    if is_on_card(source) == is_on_card(target) or not source.numel():
        return
    if source.layout is not torch.strided:  # Its parts are sent one by one.
        return
    same_type = source.dtype == target.dtype
    if same_type and _has_same_layout(source, target):
        return
    does_not_wait = bool(call.argument("non_blocking", False))
    count = target.numel()
    if is_on_card(target):
        if does_not_wait:
            size = 0 if same_type and target.is_contiguous() else source.element_size()
        else:
            size = 0 if target.is_contiguous() else target.element_size()
        device.temporary(count * size, call.name)
        return
    is_whole = source.is_contiguous() and source.numel() == count
    if not does_not_wait:
        device.temporary(0 if is_whole else count * source.element_size(), call.name)
    elif not same_type:
        converted = device.allocate(source.numel() * target.element_size(), call.name)
        if not is_whole:
            device.temporary(count * target.element_size(), call.name)
        device.free(converted)
    else:
        device.temporary(0 if is_whole else count * source.element_size(), call.name)


def _has_same_layout(source: torch.Tensor, target: torch.Tensor) -> bool:
    """Both fill their memory without gaps, with their elements in the same order."""
    if source.shape != target.shape:
        return False
    is_alike = all(
        size == 1 or one == other
        for size, one, other in zip(source.shape, source.stride(), target.stride())
    )
    return is_alike and fills_its_memory(source)
