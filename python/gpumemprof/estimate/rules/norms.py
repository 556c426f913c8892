"""Normalizations."""

from __future__ import annotations

from typing import Any

from gpumemprof.estimate.engine.device import Device
from gpumemprof.estimate.rules.copies import copies_inputs
from gpumemprof.estimate.rules.table import Call, rule
from gpumemprof.estimate.rules.tensors import is_on_card, is_packed

__all__: list[str] = []


@rule("native_group_norm", certainty="exact")
def group_norm(device: Device, call: Call, outputs: Any) -> None:
    """Factor and summand of each channel of each image."""
    if is_on_card(outputs[0]):
        channels = call.args[3] * call.args[4]
        device.held(call.name, channels * 4, channels * 4)


@rule("native_group_norm_backward", certainty="exact")
def group_norm_backward(device: Device, call: Call, outputs: Any) -> None:
    if is_on_card(call.args[0]):
        images, channels, groups = call.args[5], call.args[6], call.args[8]
        per_channel, per_group = images * channels * 4, images * groups * 4
        device.held(call.name, per_channel, per_channel, per_group, per_group, per_channel)


copies_inputs("native_layer_norm", "_fused_rms_norm", inputs=(0,))
copies_inputs("native_layer_norm_backward", "_fused_rms_norm_backward", inputs=(0, 1))
copies_inputs("cudnn_batch_norm", "native_group_norm", inputs=(0,), accepts=is_packed)
copies_inputs(
    "cudnn_batch_norm_backward", "native_group_norm_backward", inputs=(0, 1), accepts=is_packed
)
