"""A whole layer of an encoder in one C++ function."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as functional

from gpumemprof.estimate.patches.transformer.attention import FusedAttention, Sequences, linear
from gpumemprof.estimate.patches.transformer.packed import Packed

__all__ = ["FusedLayer"]


class FusedLayer:
    def __init__(self, attention: FusedAttention) -> None:
        self._attention = attention

    def forward(
        self,
        src: Sequences,
        embed_dim: int,
        num_heads: int,
        qkv_weight: torch.Tensor,
        qkv_bias: torch.Tensor,
        proj_weight: torch.Tensor,
        proj_bias: torch.Tensor,
        use_gelu: bool,
        norm_first: bool,
        eps: float,
        norm_weight_1: torch.Tensor,
        norm_bias_1: torch.Tensor,
        norm_weight_2: torch.Tensor,
        norm_bias_2: torch.Tensor,
        ffn_weight_1: torch.Tensor,
        ffn_bias_1: torch.Tensor,
        ffn_weight_2: torch.Tensor,
        ffn_bias_2: torch.Tensor,
        mask: torch.Tensor | None = None,
        mask_type: int | None = None,
    ) -> Any:
        x = src
        if norm_first:
            x = _normalize(x, norm_weight_1, norm_bias_1, eps)
        x = self._attention.attend(
            x, x, x, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, mask,
            False, True, mask_type,
        )[0]  # fmt: skip
        _add(x, src)
        if not norm_first:
            x = _normalize(x, norm_weight_1, norm_bias_1, eps)
        before = x
        if norm_first:
            x = _normalize(x, norm_weight_2, norm_bias_2, eps)
        x = linear(_activated(x, ffn_weight_1, ffn_bias_1, use_gelu), ffn_weight_2, ffn_bias_2)
        _add(x, before)
        if not norm_first:
            x = _normalize(x, norm_weight_2, norm_bias_2, eps)
        return x


def _rows(x: Sequences) -> torch.Tensor:
    return x.rows if isinstance(x, Packed) else x


def _add(x: Sequences, other: Sequences) -> None:
    _rows(x).add_(_rows(other))


def _normalize(x: Sequences, weight: torch.Tensor, bias: torch.Tensor, eps: float) -> Sequences:
    if isinstance(x, Packed):
        return x.with_rows(functional.layer_norm(x.rows, (x.rows.size(-1),), weight, bias, eps))
    return functional.layer_norm(x, (x.size(-1),), weight, bias, eps)


def _activated(x: Sequences, weight: torch.Tensor, bias: torch.Tensor, use_gelu: bool) -> Sequences:
    rows = _rows(x)
    found = torch._addmm_activation(
        bias, rows.reshape(-1, rows.size(-1)), weight.t(), beta=1, alpha=1, use_gelu=use_gelu
    )
    if isinstance(x, Packed):
        return x.with_rows(found)
    return found.view(*x.shape[:-1], -1)
