"""Normalizations."""

from __future__ import annotations

import math
from typing import Any

import torch

from gpumemprof.estimate.engine.device import Device
from gpumemprof.estimate.rules.copies import copies_inputs
from gpumemprof.estimate.rules.reductions.launch import largest_power_of_two
from gpumemprof.estimate.rules.table import Call, rule
from gpumemprof.estimate.rules.tensors import (
    bytes_of,
    divide_up,
    is_channels_last,
    is_on_card,
    is_packed,
)

__all__: list[str] = []


@rule("native_group_norm", certainty="exact")
def group_norm(device: Device, call: Call, outputs: Any) -> None:
    """Factor and summand of each channel of each image, if there are weights."""
    if is_on_card(outputs[0]) and (call.args[1] is not None or call.args[2] is not None):
        channels = call.args[3] * call.args[4]
        device.held(call.name, channels * 4, channels * 4)


@rule("native_group_norm_backward", certainty="exact")
def group_norm_backward(device: Device, call: Call, outputs: Any) -> None:
    if not is_on_card(call.args[0]):
        return
    images, channels, groups = call.args[5], call.args[6], call.args[8]
    per_channel, per_group = images * channels * 4, images * groups * 4
    sums = [device.allocate(size, call.name) for size in (per_channel,) * 2 + (per_group,) * 2]
    factors = 0
    if call.args[4] is not None:
        factors = device.allocate(per_channel, call.name)
    for address in (sums[3], sums[2], factors, sums[1], sums[0]):
        device.free(address)


def channels_last_grid(tensor: torch.Tensor) -> tuple[int, int]:
    """Blocks along channels and along pixels of torch's kernels for channels last."""
    channels = tensor.size(1)
    pixels = tensor.numel() // channels
    width = min(largest_power_of_two(channels), 32)
    height = min(largest_power_of_two(divide_up(pixels, 16)), 512 // width)
    if width * height != 512:
        width = min(largest_power_of_two(channels), 512 // height)
    rows = min(divide_up(pixels, height * 16), 128)
    return divide_up(channels, width), rows if rows >= 8 else 1


def _take_shared_sums(device: Device, call: Call, tensor: torch.Tensor, values: int) -> None:
    """Blocks that share a channel meet in a buffer with this many values for each channel."""
    across, along = channels_last_grid(tensor)
    if along > 1:
        device.held(call.name, values * tensor.size(1) * along * 4, across * 4)


@rule("native_batch_norm", certainty="exact")
def batch_norm(device: Device, call: Call, outputs: Any) -> None:
    if is_on_card(outputs[0]) and call.args[5] and is_channels_last(call.args[0]):
        _take_shared_sums(device, call, call.args[0], 4)


@rule("native_batch_norm_backward", certainty="exact", hook="births")
def batch_norm_backward(device: Device, call: Call, outputs: Any) -> None:
    tensor = call.args[1]
    if not is_on_card(tensor) or not is_channels_last(tensor):
        device.births(outputs, call.name)
        return
    size = tensor.size(1) * 4
    sums = [device.allocate(size, call.name) for _ in range(2)]
    device.births(outputs[1:], call.name)
    _take_shared_sums(device, call, tensor, 2)
    device.births(outputs, call.name)
    for address in reversed(sums):
        device.free(address)


# Of cuDNN's kernels for half precision with channels last: a block sums 64 channels of some pixels.
BLOCK_CHANNELS = 64
FORWARD_PIXELS, BACKWARD_PIXELS = 160, 96


def cudnn_norm_bytes(tensor: torch.Tensor, is_forward: bool) -> int:
    """The workspace of a batch normalization in training; fitted to sizes on an H200.

    Blocks meet in two sums for each of their channels, forward with a count, and one counter for
    each group of channels. Other types and layouts take no workspace.
    """
    channels = tensor.size(1)
    if tensor.dtype != torch.float16 or tensor.dim() != 4 or channels % 4:
        return 0
    if not is_channels_last(tensor):
        return 0
    pixels = tensor.numel() // channels
    groups = divide_up(channels, BLOCK_CHANNELS)
    sums = 2 * BLOCK_CHANNELS * 4
    if is_forward:
        return groups * (divide_up(pixels, FORWARD_PIXELS) * (sums + 4) + 4) + 1072
    return groups * (divide_up(pixels, BACKWARD_PIXELS) * sums + 4) + 1056


@rule("cudnn_batch_norm", certainty="fitted")
def cudnn_batch_norm(device: Device, call: Call, outputs: Any) -> None:
    if is_on_card(outputs[0]) and call.args[5]:
        device.temporary(cudnn_norm_bytes(call.args[0], True), f"{call.name}: cuDNN workspace")


@rule("cudnn_batch_norm_backward", certainty="fitted")
def cudnn_batch_norm_backward(device: Device, call: Call, outputs: Any) -> None:
    if is_on_card(outputs[0]):
        device.temporary(cudnn_norm_bytes(call.args[0], False), f"{call.name}: cuDNN workspace")


@rule("native_layer_norm_backward", certainty="exact", hook="births")
def layer_norm_backward(device: Device, call: Call, outputs: Any) -> None:
    """Many short rows: the gradients of weight and bias are summed in two stages."""
    tensor, shape = call.args[1], call.args[2]
    row = math.prod(shape)
    rows = tensor.numel() // max(row, 1)
    is_long = rows > 64 * 1024 and row // 32 < device.card.multiprocessors // 2
    if not is_on_card(tensor) or not is_long or not is_on_card(outputs[1]):
        device.births(outputs, call.name)
        return
    device.births(outputs[0], call.name)
    gradients = [output for output in outputs[1:] if is_on_card(output)]
    first = [device.allocate(bytes_of(each), call.name) for each in gradients]
    partial = rows // 32 * row * tensor.element_size()
    stages = [device.allocate(partial, call.name) for _ in gradients]
    for gradient, replaced in zip(gradients, first):
        device.births(gradient, call.name)
        device.free(replaced)
    for address in reversed(stages):
        device.free(address)


copies_inputs("native_layer_norm", "_fused_rms_norm", inputs=(0,))
copies_inputs(
    "native_layer_norm_backward", "_fused_rms_norm_backward", inputs=(0,), after_results=True
)
copies_inputs("native_layer_norm_backward", "_fused_rms_norm_backward", inputs=(1,))
copies_inputs("cudnn_batch_norm", "native_group_norm", inputs=(0,), accepts=is_packed)
copies_inputs(
    "cudnn_batch_norm_backward", "native_group_norm_backward", inputs=(0, 1), accepts=is_packed
)
