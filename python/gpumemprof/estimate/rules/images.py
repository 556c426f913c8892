"""Pooling and resizing of images."""

from __future__ import annotations

from typing import Any

import torch

from gpumemprof.estimate.engine.device import Device
from gpumemprof.estimate.rules.copies import copies_inputs
from gpumemprof.estimate.rules.table import Call, rule
from gpumemprof.estimate.rules.tensors import bytes_of, is_channels_last, is_on_card, is_packed

__all__: list[str] = []


FEWEST_CHANNELS_LAST = 4


@rule(
    "upsample_nearest2d",
    "upsample_nearest2d_backward",
    "upsample_bilinear2d_backward",
    certainty="exact",
)
def resize(device: Device, call: Call, outputs: Any) -> None:
    """Few channels last are resized as copies; so is a gradient with gaps between its images."""
    tensor = call.args[0]
    if not is_on_card(tensor):
        return
    if is_channels_last(tensor) and tensor.size(1) < FEWEST_CHANNELS_LAST:
        device.held(call.name, bytes_of(outputs), bytes_of(tensor))
    elif not is_packed(tensor) and call.name.endswith("backward"):
        device.temporary(bytes_of(tensor), f"{call.name}: contiguous copy")


@rule("im2col", "col2im", certainty="exact", hook="births")
def unfold(device: Device, call: Call, outputs: Any) -> None:
    """The result is made with the size of the input first, and never becomes smaller."""
    tensor = call.args[0]
    if not is_on_card(tensor) or not is_on_card(outputs):
        device.births(outputs, call.name)
        return
    size = bytes_of(tensor)
    is_larger = bytes_of(outputs) > size
    first = 0
    if is_larger:
        first = device.allocate(size, call.name)
    else:
        device.birth_sized(outputs, size, call.name)
    copy = 0
    if not tensor.is_contiguous():
        copy = device.allocate(size, f"{call.name}: contiguous copy")
    device.births(outputs, call.name)
    device.free(first)
    device.free(copy)


@rule("_adaptive_avg_pool2d_backward", certainty="exact")
def adaptive_average_backward(device: Device, call: Call, outputs: Any) -> None:
    grad = call.args[0]
    if is_on_card(grad) and outputs.is_contiguous() and not grad.is_contiguous():
        device.temporary(bytes_of(grad), f"{call.name}: contiguous copy")


@rule("adaptive_max_pool2d", certainty="exact")
def adaptive_maximum(device: Device, call: Call, outputs: Any) -> None:
    """The kernel knows rows alone: another layout is copied, in both directions."""
    tensor = call.args[0]
    if is_on_card(tensor) and not tensor.is_contiguous():
        device.held(call.name, *(bytes_of(each) for each in (*outputs, tensor)))


def has_no_repeated_elements(tensor: torch.Tensor) -> bool:
    return 0 not in tensor.stride()


copies_inputs("max_pool2d_with_indices", "_adaptive_avg_pool2d", inputs=(0,), accepts=is_packed)
copies_inputs("max_pool2d_with_indices_backward", inputs=(0, 1), accepts=is_packed)
copies_inputs("reflection_pad2d", inputs=(0,), after_results=True)
copies_inputs("upsample_bicubic2d_backward", inputs=(0,), after_results=True)
copies_inputs("_upsample_bilinear2d_aa_backward", inputs=(0,), after_results=True)
copies_inputs("avg_pool2d_backward", "reflection_pad2d_backward", inputs=(0,), after_results=True)
copies_inputs("_upsample_nearest_exact2d_backward", inputs=(0,), after_results=True)
copies_inputs("adaptive_max_pool2d_backward", inputs=(0, 2, 1), after_results=True)
# cuDNN's sampler reads an input of any layout, unless it repeats elements, and contiguous grids.
copies_inputs("cudnn_grid_sampler", inputs=(0,), accepts=has_no_repeated_elements)
copies_inputs("cudnn_grid_sampler", inputs=(1,))
copies_inputs("cudnn_grid_sampler_backward", inputs=(0, 2), accepts=has_no_repeated_elements)
copies_inputs("cudnn_grid_sampler_backward", inputs=(1,))
