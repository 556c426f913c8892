"""Which kernel computes scaled dot product attention, and the operations that lead to it.

The order of preference and the conditions are those of ATen/native/transformers/cuda/sdp_utils.cpp.
The memory of a choice that is wrong is off by a whole attention matrix.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from gpumemprof.estimate.engine.device import Device
from gpumemprof.estimate.rules.table import choice
from gpumemprof.estimate.rules.tensors import is_half

__all__ = ["CUDNN", "EFFICIENT", "FLASH", "MATH", "chosen_kernel"]

CUDNN, FLASH, EFFICIENT, MATH = "cudnn", "flash", "efficient", "math"
aten = torch.ops.aten


class Attention:
    """The arguments of one call, as the conditions of the kernels ask about them."""

    def __init__(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        mask: torch.Tensor | None,
        dropout: float,
        is_causal: bool,
        enable_gqa: bool,
        needs_gradient: bool,
    ) -> None:
        self.query, self.key, self.value, self.mask = query, key, value, mask
        self.dropout, self.is_causal, self.enable_gqa = dropout, is_causal, enable_gqa
        self.needs_gradient = needs_gradient

    @property
    def inputs(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        return self.query, self.key, self.value

    def are_4d(self) -> bool:
        return all(tensor.dim() == 4 for tensor in self.inputs)

    def have_elements(self) -> bool:
        return all(tensor.size(-2) > 0 for tensor in self.inputs) and self.query.size(-1) > 0

    def share_dtype(self, *dtypes: torch.dtype) -> bool:
        query_dtype = self.query.dtype
        return query_dtype in dtypes and all(t.dtype == query_dtype for t in self.inputs)

    def have_unit_stride(self, ignores_single: bool) -> bool:
        """The elements of each head lie behind each other."""
        tensors = list(self.inputs) + ([self.mask] if self.mask is not None else [])
        for tensor in tensors:
            if tensor.stride(-1) != 1 and not (ignores_single and tensor.size(-1) == 1):
                return False
        return True

    def have_equal_heads(self) -> bool:
        return len({tensor.size(1) for tensor in self.inputs}) == 1

    def have_equal_batches(self) -> bool:
        return len({tensor.size(0) for tensor in self.inputs}) == 1

    def heads_are_grouped(self, must_be_same: bool) -> bool:
        """Whether each head of key and value serves the same number of heads of the query."""
        query, key, value = (tensor.size(1) for tensor in self.inputs)
        if must_be_same and key != value:
            return False
        return query % key == 0 and query % value == 0
