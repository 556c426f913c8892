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


class Unfold:
    """Padding is added to a copy."""

    @staticmethod
    def before(device: Device, call: Call) -> None:
        tensor = call.args[0]
        if is_on_card(tensor) and any(call.argument("padding")):
            call.state["padded"] = device.allocate(bytes_of(tensor), call.name)

    @staticmethod
    def after(device: Device, call: Call, outputs: Any) -> None:
        tensor = call.args[0]
        if is_on_card(tensor) and not tensor.is_contiguous() and "padded" not in call.state:
            device.temporary(bytes_of(tensor), f"{call.name}: contiguous copy")
        device.free(call.state.pop("padded", 0))


rule("im2col", certainty="fitted")(Unfold)


def has_no_repeated_elements(tensor: torch.Tensor) -> bool:
    return 0 not in tensor.stride()


copies_inputs("max_pool2d_with_indices", "_adaptive_avg_pool2d", inputs=(0,), accepts=is_packed)
copies_inputs("max_pool2d_with_indices_backward", inputs=(0, 1), accepts=is_packed)
copies_inputs("reflection_pad2d", inputs=(0,), after_results=True)
copies_inputs("upsample_bicubic2d_backward", inputs=(0,), after_results=True)
copies_inputs("_upsample_bilinear2d_aa_backward", inputs=(0,), after_results=True)
# cuDNN's sampler reads an input of any layout, unless it repeats elements, and contiguous grids.
copies_inputs("cudnn_grid_sampler", inputs=(0,), accepts=has_no_repeated_elements)
copies_inputs("cudnn_grid_sampler", inputs=(1,))
copies_inputs("cudnn_grid_sampler_backward", inputs=(0, 2), accepts=has_no_repeated_elements)
copies_inputs("cudnn_grid_sampler_backward", inputs=(1,))
