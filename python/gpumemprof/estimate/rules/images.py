"""Pooling and resizing of images."""

from __future__ import annotations

from typing import Any

from gpumemprof.estimate.engine.device import Device
from gpumemprof.estimate.rules.copies import copies_inputs
from gpumemprof.estimate.rules.table import Call, rule
from gpumemprof.estimate.rules.tensors import bytes_of, is_on_card, is_packed

__all__: list[str] = []


@rule("upsample_nearest2d_backward", "upsample_bilinear2d_backward", certainty="exact")
def upsample_backward(device: Device, call: Call, outputs: Any) -> None:
    """A gradient with gaps, as from a part of a concatenation, is copied."""
    grad = call.args[0]
    if is_on_card(grad) and not is_packed(grad):
        device.temporary(bytes_of(grad), f"{call.name}: contiguous copy")


copies_inputs("max_pool2d_with_indices", "_adaptive_avg_pool2d", inputs=(0,), accepts=is_packed)
copies_inputs("max_pool2d_with_indices_backward", inputs=(0, 1), accepts=is_packed)
