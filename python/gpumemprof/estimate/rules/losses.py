"""Loss functions."""

from __future__ import annotations

from typing import Any

import torch

from gpumemprof.estimate.engine.device import Device
from gpumemprof.estimate.rules.reductions.hooks import accumulator_bytes, take_reduction_memory
from gpumemprof.estimate.rules.table import Call, rule
from gpumemprof.estimate.rules.tensors import bytes_of, is_half, is_on_card

__all__: list[str] = []

NO_REDUCTION = 0


def _is_reduced(call: Call, outputs: Any) -> bool:
    return call.argument("reduction") != NO_REDUCTION and is_on_card(outputs)


def _reduce(device: Device, tensor: torch.Tensor) -> None:
    width = 8 if is_half(tensor) else 4
    take_reduction_memory(device, tensor, None, accumulator_bytes(tensor), width)


@rule("mse_loss", "smooth_l1_loss", certainty="exact", hook="births")
def pointwise_loss(device: Device, call: Call, outputs: Any) -> None:
    """The returned scalar lives in a storage of full size; a second one is reduced into it."""
    if not _is_reduced(call, outputs):
        device.births(outputs, call.name)
        return
    tensor = call.args[0]
    device.birth_sized(outputs, bytes_of(tensor), call.name)
    losses = device.allocate(bytes_of(tensor), call.name)
    _reduce(device, tensor)
    device.free(losses)


@rule("huber_loss", certainty="exact", hook="births")
def huber_loss(device: Device, call: Call, outputs: Any) -> None:
    if not _is_reduced(call, outputs):
        device.births(outputs, call.name)
        return
    losses = device.allocate(bytes_of(call.args[0]), call.name)
    device.births(outputs, call.name)
    _reduce(device, call.args[0])
    device.free(losses)


@rule("soft_margin_loss", "binary_cross_entropy", certainty="exact", hook="births")
def loss_in_place(device: Device, call: Call, outputs: Any) -> None:
    """The returned scalar lives in the storage of all losses."""
    if not _is_reduced(call, outputs):
        device.births(outputs, call.name)
        return
    device.birth_sized(outputs, bytes_of(call.args[0]), call.name)
    mean = device.allocate(outputs.element_size(), call.name)
    _reduce(device, call.args[0])
    device.free(mean)


@rule("binary_cross_entropy_with_logits", certainty="exact", hook="births")
def logits_loss(device: Device, call: Call, outputs: Any) -> None:
    """Two tensors of full size: the log of the sigmoid, and the losses."""
    if not is_on_card(outputs):
        device.births(outputs, call.name)
        return
    size = bytes_of(call.args[0])
    first = device.allocate(size, call.name)
    positive_weight = call.argument("pos_weight")
    if positive_weight is not None:
        less_one = device.allocate(bytes_of(positive_weight), call.name)
        scaled = device.allocate(size, call.name)
        device.free(less_one)
        device.free(scaled)
    if not _is_reduced(call, outputs):
        device.births(outputs, call.name)
        device.free(first)
        return
    losses = device.allocate(size, call.name)
    device.births(outputs, call.name)
    _reduce(device, call.args[0])
    device.free(losses)
    device.free(first)
