"""Pooling and resizing of images."""

from __future__ import annotations

from gpumemprof.estimate.rules.copies import copies_inputs
from gpumemprof.estimate.rules.tensors import is_packed

__all__: list[str] = []

copies_inputs("max_pool2d_with_indices", "_adaptive_avg_pool2d", inputs=(0,), accepts=is_packed)
copies_inputs("max_pool2d_with_indices_backward", inputs=(0, 1), accepts=is_packed)
copies_inputs(
    "upsample_nearest2d_backward", "upsample_bilinear2d_backward", inputs=(0,), accepts=is_packed
)
