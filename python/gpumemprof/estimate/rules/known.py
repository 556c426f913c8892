"""Operations of which it is known what they allocate."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import torch

__all__ = ["allocates_results_alone"]

_DATA = Path(__file__).parent / "data" / "plain_operations.json"
_LISTS = ("_foreach_", "_fused_", "_amp_")  # of tensors, as optimizers use them
_NOTHING_ELSE = ("empty", "new_", "zeros", "ones", "full", "rand", "arange", "linspace", "_to_copy")

# Of one step, or made of other tensors; torch does not tag them.
_SIMPLE = frozenset(
    ("_unsafe_view", "floor_divide", "topk", "_sparse_coo_tensor_with_dims_and_tensors")
)


@functools.lru_cache(maxsize=1)
def _plain() -> frozenset[str]:
    """Those whose recorded calls on an H200 allocated their results alone."""
    return frozenset(json.loads(_DATA.read_text()))


def allocates_results_alone(func: Any, name: str) -> bool:
    """Whether that is known: recorded, or of the nature of the operation."""
    if name in _SIMPLE or name in _plain() or name.rstrip("_") in _plain():
        return True
    if name.startswith((*_LISTS, *_NOTHING_ELSE)) or torch.Tag.pointwise in func.tags:
        return True
    schema = func._schema
    is_view = any(each.alias_info is not None for each in schema.returns)
    has_tensors = any("Tensor" in str(each.type) for each in schema.returns)
    return is_view or not has_tensors or name.startswith(("prim::", "profiler::", "_c10d"))
