"""Which operations may be part of a recipe, and what each costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from gpumemprof.estimate.engine.operation import Operation
from gpumemprof.estimate.engine.random_draws import is_random

__all__ = ["USES_SHAPE_ALONE", "can_be_computed", "cost_of", "draws_on_its_own"]

# Beside pointwise operations, views and random numbers: what programs compute masks and indices of.
_ALLOWED = frozenset(
    (
        "_cdist_forward",
        "_euclidean_dist",
        "_softmax",
        "_to_copy",
        "_unsafe_view",
        "_upsample_nearest_exact1d",
        "_upsample_nearest_exact2d",
        "_upsample_nearest_exact3d",
        "all",
        "amax",
        "amin",
        "any",
        "arange",
        "argmax",
        "argmin",
        "argsort",
        "bmm",
        "bucketize",
        "cat",
        "clone",
        "constant_pad_nd",
        "copy_",
        "count_nonzero",
        "cummax",
        "cummin",
        "cumprod",
        "cumsum",
        "eye",
        "fill",
        "fill_",
        "fill_diagonal_",
        "flip",
        "full",
        "full_like",
        "gather",
        "index",
        "index_fill",
        "index_fill_",
        "index_put",
        "index_put_",
        "index_select",
        "isin",
        "kthvalue",
        "lift_fresh",
        "linalg_vector_norm",
        "linspace",
        "logsumexp",
        "max",
        "mean",
        "median",
        "min",
        "mm",
        "new_full",
        "new_ones",
        "new_zeros",
        "norm",
        "ones",
        "ones_like",
        "prod",
        "repeat",
        "roll",
        "scalar_tensor",
        "scatter",
        "scatter_",
        "scatter_add",
        "scatter_reduce",
        "searchsorted",
        "sort",
        "stack",
        "std",
        "sum",
        "take",
        "topk",
        "tril",
        "tril_indices",
        "triu",
        "triu_indices",
        "upsample_nearest1d",
        "upsample_nearest2d",
        "upsample_nearest3d",
        "var",
        "zero_",
        "zeros",
        "zeros_like",
    )
)
_RANDOM = frozenset(
    (
        "bernoulli",
        "bernoulli_",
        "exponential_",
        "multinomial",
        "normal",
        "normal_",
        "rand",
        "rand_like",
        "randint",
        "randint_like",
        "randn",
        "randn_like",
        "random_",
        "randperm",
        "uniform_",
    )
)
# Whatever values the first argument has, the results are the same.
USES_SHAPE_ALONE = frozenset(
    (
        "bernoulli_",
        "copy_",
        "exponential_",
        "fill_",
        "full_like",
        "new_full",
        "new_ones",
        "new_zeros",
        "normal_",
        "ones_like",
        "rand_like",
        "randint_like",
        "randn_like",
        "random_",
        "uniform_",
        "zero_",
        "zeros_like",
    )
)
_PRODUCTS = frozenset(("mm", "bmm", "_cdist_forward", "_euclidean_dist"))
# Multiplications take a fraction of the time of reading and writing an element.
_PRODUCTS_PER_ELEMENT = 8


def can_be_computed(op: Operation) -> bool:
    """Whether it is cheap for its size, and has no effect but its results."""
    if op.can_be_recipe is None:
        op.can_be_recipe = _is_allowed(op)
    return op.can_be_recipe


def _is_allowed(op: Operation) -> bool:
    if op.has_out or not op.func._schema.name.startswith("aten::"):
        return False
    if is_random(op):
        return op.name in _RANDOM
    tags = op.func.tags
    return op.name in _ALLOWED or op.returns_view or torch.Tag.pointwise in tags


def draws_on_its_own(op: Operation) -> bool:
    """Whether its results are random numbers."""
    return is_random(op)


def cost_of(op: Operation, args: Sequence[Any], elements: int) -> int:
    """In elements that are read or written."""
    if op.name in _PRODUCTS and isinstance(args[0], torch.Tensor):
        return elements * max(1, int(args[0].shape[-1]) // _PRODUCTS_PER_ELEMENT)
    return 0 if op.returns_view else elements
