"""Connectionist temporal classification: torch's own kernels, and cuDNN's.

(ATen/native/cuda/LossCTC.cu, ATen/native/cudnn/LossCTC.cpp)
"""

from __future__ import annotations

from typing import Any

import torch

from gpumemprof.estimate.engine.device import Device
from gpumemprof.estimate.rules.table import Call, rule
from gpumemprof.estimate.rules.tensors import bytes_of, is_on_card

__all__: list[str] = []

INDEX_BYTES = 8
LONGEST_TARGET = 255  # of cuDNN, where the lengths are on the card


def _lengths(device: Device, call: Call, batch: int) -> list[int]:
    """Lengths of targets and of inputs, and where each target begins."""
    return [device.allocate(INDEX_BYTES * batch, call.name) for _ in range(3)]


@rule("_ctc_loss", certainty="exact", hook="births")
def loss(device: Device, call: Call, outputs: Any) -> None:
    if not is_on_card(call.args[0]):
        device.births(outputs, call.name)
        return
    lengths = _lengths(device, call, call.args[0].size(1))
    device.births([outputs[1], outputs[0]], call.name)
    for address in (lengths[1], lengths[0], lengths[2]):
        device.free(address)


@rule("_ctc_loss_backward", certainty="exact", hook="births")
def loss_backward(device: Device, call: Call, outputs: Any) -> None:
    log_probabilities, alpha = call.args[1], call.args[6]
    if not is_on_card(log_probabilities):
        device.births(outputs, call.name)
        return
    steps, batch, classes = log_probabilities.shape
    lengths = _lengths(device, call, batch)
    beta = device.allocate(bytes_of(alpha), call.name)
    is_large = 2 * steps + 24 * batch // 10 + 2 * classes // 10 > 450
    has_two = is_large and call.argument("zero_infinity", False)
    gradient = device.allocate(bytes_of(log_probabilities), call.name) if has_two else 0
    if not has_two:
        device.births(outputs, call.name)
    if is_large:
        _blanks(device, call, alpha)
    if has_two:  # gradients of infinite losses are replaced
        zero = device.allocate(alpha.element_size(), call.name)
        condition = device.allocate(batch, call.name)
        device.births(outputs, call.name)
        for address in (condition, zero, gradient):
            device.free(address)
    device.free(beta)
    for address in (lengths[1], lengths[0], lengths[2]):
        device.free(address)


def _blanks(device: Device, call: Call, alpha: torch.Tensor) -> None:
    """The logarithm of the sum of exponentials over the blanks, which are every other place."""
    batch, steps, places = alpha.shape
    size = alpha.element_size()
    all_bytes, sum_bytes = batch * steps * (places // 2 + 1) * size, batch * steps * size
    total = device.allocate(all_bytes, call.name)
    largest = device.allocate(sum_bytes, call.name)
    device.held(call.name, sum_bytes, batch * steps)  # which of them are infinite
    less = device.allocate(all_bytes, call.name)
    result = device.allocate(sum_bytes, call.name)
    for address in (less, largest, result, total):
        device.free(address)


@rule("_cudnn_ctc_loss", certainty="exact", hook="births")
def cudnn_loss(device: Device, call: Call, outputs: Any) -> None:
    log_probabilities, targets, *lengths = call.args[:4]
    if not is_on_card(log_probabilities):
        device.births(outputs, call.name)
        return
    steps, batch, classes = log_probabilities.shape
    is_on_device = isinstance(lengths[1], torch.Tensor)
    copies = [
        device.allocate(bytes_of(each), call.name)
        for each in (targets, *lengths)
        if is_on_device and each.device.type == "cpu"
    ]
    longest = LONGEST_TARGET if is_on_device else max(lengths[1], default=0)
    sequence_bytes = steps * (8 * (2 * longest + 1) + 4 * classes)
    sequence_bytes += 8 * longest + 12 if is_on_device else 12 * longest + 20
    device.births(outputs[1], call.name)
    workspace = device.allocate(batch * sequence_bytes, call.name)
    device.births(outputs[0], call.name)
    for address in (workspace, *reversed(copies)):
        device.free(address)
