"""Operations without a rule that are known to allocate nothing beside their results."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import torch

__all__ = ["allocates_results_alone"]

_RECORDED = Path(__file__).parents[1] / "rules" / "data" / "plain_operations.json"
# Not recorded. Factories, copies and moves; kernels that work element by element or row by row.
_NAMES = frozenset(
    (
        "_adaptive_avg_pool2d",
        "_pin_memory",
        "_sparse_coo_tensor_with_dims_and_tensors",
        "_unsafe_view",
        "adaptive_max_pool2d",
        "as_strided",
        "col2im",
        "copy_",
        "eye",
        "fill_",
        "floor_divide",
        "hardsigmoid_backward",
        "im2col",
        "lift_fresh",
        "max_pool2d_with_indices",
        "one_hot",
        "pad",
        "reflection_pad2d",
        "roll",
        "scatter",
        "scatter_",
        "scatter_add",
        "scatter_add_",
        "torchvision::_roi_align_backward",
        "torchvision::_roi_pool_backward",
        "torchvision::roi_align",
        "tril_indices",
        "triu_indices",
        "upsample_bilinear2d_backward",
        "upsample_nearest2d",
        "upsample_nearest2d_backward",
        "zero_",
    )
)
_BEGINNINGS = (
    "_foreach_",
    "_fused_",
    "_local_scalar",
    "_thnn_fused_",
    "bernoulli",
    "clone",
    "detach",
    "empty",
    "exponential_",
    "full",
    "is_",
    "new_",
    "normal",
    "ones",
    "prims::",
    "profiler::",
    "rand",
    "resize",
    "set_",
    "uniform_",
    "zeros",
)


@functools.lru_cache(maxsize=1)
def _recorded() -> frozenset[str]:
    """Those whose calls on an H200 allocated their results alone."""
    return frozenset(json.loads(_RECORDED.read_text()))


def allocates_results_alone(func: Any, name: str) -> bool:
    """Whether it is known to: recorded, computed element by element, or one of the above."""
    if torch.Tag.pointwise in getattr(func, "tags", ()) or name.startswith(_BEGINNINGS):
        return True
    return name in _NAMES or not _recorded().isdisjoint((name, name.rstrip("_")))
