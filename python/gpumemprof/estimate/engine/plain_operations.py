"""Operations without a rule that are known to allocate nothing beside their results."""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["allocates_results_alone"]

# Factories, copies and moves; kernels that read and write element by element or row by row.
_NAMES = frozenset(
    (
        "_adaptive_avg_pool2d",
        "_adaptive_avg_pool2d_backward",
        "_pin_memory",
        "_sparse_coo_tensor_with_dims_and_tensors",
        "_to_copy",
        "_unsafe_view",
        "adaptive_max_pool2d",
        "arange",
        "as_strided",
        "avg_pool2d",
        "avg_pool2d_backward",
        "block_diag",
        "cat",
        "constant_pad_nd",
        "copy_",
        "diag_embed",
        "elu_backward",
        "eye",
        "fill_",
        "flip",
        "floor_divide",
        "gather",
        "glu",
        "glu_backward",
        "grid_sampler_2d",
        "hardsigmoid_backward",
        "hardswish_backward",
        "im2col",
        "index",
        "col2im",
        "index_select",
        "leaky_relu",
        "leaky_relu_backward",
        "lift_fresh",
        "linspace",
        "max_pool2d_with_indices",
        "mse_loss_backward",
        "nll_loss2d_backward",
        "nll_loss2d_forward",
        "nll_loss_backward",
        "nll_loss_forward",
        "one_hot",
        "pad",
        "pixel_shuffle",
        "pixel_unshuffle",
        "reflection_pad1d",
        "reflection_pad1d_backward",
        "reflection_pad2d",
        "reflection_pad2d_backward",
        "repeat",
        "replication_pad2d",
        "roll",
        "scalar_tensor",
        "scatter",
        "scatter_",
        "scatter_add",
        "scatter_add_",
        "select_backward",
        "slice_backward",
        "smooth_l1_loss_backward",
        "stack",
        "tril",
        "tril_indices",
        "triu",
        "triu_indices",
        "upsample_bicubic2d",
        "upsample_bilinear2d",
        "upsample_bilinear2d_backward",
        "upsample_nearest1d",
        "upsample_nearest1d_backward",
        "upsample_nearest2d",
        "upsample_nearest2d_backward",
        "zero_",
        "torchvision::roi_align",
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


def allocates_results_alone(func: Any, name: str) -> bool:
    """Whether it is known to: computed element by element, or one of the above."""
    if torch.Tag.pointwise in getattr(func, "tags", ()):
        return True
    return name in _NAMES or name.startswith(_BEGINNINGS)
