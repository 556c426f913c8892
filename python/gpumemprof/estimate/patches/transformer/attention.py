"""The fused attention of encoders, on padded sequences or on sequences without padding."""

from __future__ import annotations

from typing import Any, Union

import torch
import torch.nn.functional as functional

from gpumemprof.estimate.engine.device import Device
from gpumemprof.estimate.patches.transformer.packed import Packed, send_numbers
from gpumemprof.estimate.rules.attention.choice import FLASH, MATH, Attention, chosen_kernel

__all__ = ["FusedAttention", "Sequences", "linear"]

Sequences = Union[torch.Tensor, Packed]
# The kernel that fills a shorter sequence up pads its length to a multiple of this.
_LENGTH_STEP = 8
_LARGE_HEAD = 128  # accumulated in single precision by the memory-efficient kernel
_STATE_SIZES = (2, 1)  # of the flash kernel's random numbers
_LONGEST_PERSISTENT = 1024
_LARGEST_PERSISTENT_BYTES = 4096
_OF_KEYS = 1  # a kind of mask: one row for each sequence


def linear(x: Sequences, weight: torch.Tensor, bias: torch.Tensor | None) -> Sequences:
    if isinstance(x, Packed):
        return x.with_rows(functional.linear(x.rows, weight, bias))
    return functional.linear(x, weight, bias)


class FusedAttention:
    def __init__(self, device: Device) -> None:
        self._device = device

    def attend(
        self,
        query: Sequences,
        key: Sequences,
        value: Sequences,
        embed_dim: int,
        num_head: int,
        qkv_weight: torch.Tensor,
        qkv_bias: torch.Tensor,
        proj_weight: torch.Tensor,
        proj_bias: torch.Tensor,
        mask: torch.Tensor | None = None,
        need_weights: bool = True,
        average_attn_weights: bool = True,
        mask_type: int | None = None,
    ) -> tuple[Any, Any]:
        is_self_attention = query is key and key is value
        if is_self_attention and not need_weights and mask is None:
            kernel = self._kernel(query, num_head)
            if kernel != MATH:
                projected = linear(query, qkv_weight, qkv_bias)
                if isinstance(projected, Packed):
                    mixed: Sequences = self._mix_packed(projected, num_head, kernel)
                else:
                    mixed = _mix(projected, num_head)
                result = linear(mixed, proj_weight, proj_bias)
                del mixed, projected
                return result, None
        projected = _project(query, key, value, embed_dim, qkv_weight)
        heads = _split_heads(projected, qkv_bias, num_head)
        del projected
        scores = torch.bmm(heads[0].flatten(0, 1), heads[1].flatten(0, 1).transpose(1, 2))
        scores = scores.view(*heads.shape[1:4], heads.size(3))
        mask, mask_type = _mask_of(scores, mask, query, mask_type)
        shares = _softmax(scores, mask, mask_type)
        if isinstance(query, Packed):
            del mask  # It belongs to a function that has returned.
        scores = shares
        del shares
        mask = None
        weights = scores if need_weights else None
        del scores  # The result is written over the queries.
        result = _join_heads(heads[0], proj_weight, proj_bias, query)
        if weights is not None and average_attn_weights:
            weights = weights.sum(1).div_(num_head)
        return result, weights

    def _kernel(self, x: Sequences, heads: int) -> str:
        """Chosen before the projection, for the input in its place."""
        if isinstance(x, Packed):
            if min(x.lengths, default=0) <= 1:
                return MATH
            rows = x.rows[: max(x.lengths)].expand(len(x.lengths), -1, -1)
        else:
            rows = x
        each = rows.unflatten(-1, (heads, -1)).transpose(1, 2)
        kernel = chosen_kernel(
            self._device,
            Attention(each, each, each, None, 0.0, False, False, False),
            is_packed=isinstance(x, Packed),
        )
        self._device.note("kernel", f"attention is computed by the {kernel} kernel")
        return kernel

    def _mix_packed(self, projected: Packed, heads: int, kernel: str) -> Packed:
        """Where each sequence begins is sent for the queries and for the keys."""
        rows = projected.rows
        starts = [
            torch.empty(len(projected.lengths) + 1, dtype=torch.int32, device="cpu").to(rows.device)
            for _ in ("queries", "keys")
        ]
        total, width = rows.size(0), rows.size(1) // 3
        mixed = rows.new_empty((total, width))
        states = []
        if kernel == FLASH:
            sums = rows.new_empty((heads, total), dtype=torch.float32)
            states = [rows.new_empty(count, dtype=torch.int64) for count in _STATE_SIZES]
            del sums
        elif rows.element_size() == 2 and width // heads > _LARGE_HEAD:
            rows.new_empty((total, width), dtype=torch.float32)
        for each in (starts, states):
            while each:
                del each[0]
        return projected.with_rows(mixed)


def _mix(projected: torch.Tensor, heads: int) -> torch.Tensor:
    query, key, value = (
        part.unflatten(-1, (heads, -1)).transpose(1, 2) for part in projected.chunk(3, -1)
    )
    mixed = functional.scaled_dot_product_attention(query, key, value)
    return mixed.transpose(1, 2).flatten(2)


def _multiply(x: Sequences, weight: torch.Tensor) -> Sequences:
    if isinstance(x, Packed):
        return x.with_rows(torch.mm(x.rows, weight.t()))
    return torch.mm(x.flatten(0, 1), weight.t()).view(*x.shape[:2], -1)


def _project(
    query: Sequences, key: Sequences, value: Sequences, width: int, weight: torch.Tensor
) -> Sequences:
    if query is key and key is value:
        return _multiply(query, weight)
    if key is value:
        first, rest = weight.split((width, 2 * width))
        parts = [_multiply(query, first), _multiply(key, rest)]
    else:
        parts = [_multiply(x, w) for x, w in zip((query, key, value), weight.chunk(3))]
    return torch.cat(parts, 2)


def _split_heads(projected: Sequences, bias: torch.Tensor, heads: int) -> torch.Tensor:
    """Queries, keys and values with their bias: [3, batch, heads, length, size]."""
    size = bias.size(0) // 3 // heads
    if not isinstance(projected, Packed):
        return bias.new_empty((3, projected.size(0), heads, projected.size(1), size))
    batch, longest = len(projected.lengths), max(projected.lengths)
    longest = -(-longest // _LENGTH_STEP) * _LENGTH_STEP
    split = bias.new_empty((3, batch, heads, longest, size))
    send_numbers(2 * batch + 1, torch.int32, bias.device)
    return split


def _mask_of(
    scores: torch.Tensor, mask: torch.Tensor | None, query: Sequences, mask_type: int | None
) -> tuple[torch.Tensor | None, int | None]:
    if isinstance(query, Packed):
        padding = torch.empty((len(query.lengths), scores.size(2)), dtype=torch.bool, device="cpu")
        return padding.to(scores.device, non_blocking=True), _OF_KEYS
    if mask is not None and mask.dtype != torch.bool:
        mask = mask.to(torch.bool)
    return mask, mask_type


def _softmax(
    scores: torch.Tensor, mask: torch.Tensor | None, mask_type: int | None
) -> torch.Tensor:
    """One kernel for short rows; it needs a mask that lies in memory as it is."""
    if mask is None:
        return scores  # in place
    row_bytes = scores.size(-1) * scores.element_size()
    if (
        scores.size(-1) <= _LONGEST_PERSISTENT
        and row_bytes <= _LARGEST_PERSISTENT_BYTES
        and mask.is_contiguous()
    ):
        return torch.empty_like(scores)
    if mask_type == _OF_KEYS:
        mask = mask[:, None, None]
    return torch.softmax(scores.masked_fill(mask, -torch.inf), -1)


def _join_heads(
    heads: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, query: Sequences
) -> Sequences:
    if not isinstance(query, Packed):
        return functional.linear(heads.transpose(1, 2).flatten(2), weight, bias)
    rows = heads.new_empty((sum(query.lengths), heads.size(1) * heads.size(3)))
    # The sizes of all sequences and of the padded heads, and where each sequence begins.
    batch = len(query.lengths)
    send_numbers(2 * batch + 4 + batch + 1, torch.int64, heads.device)
    return query.with_rows(torch.addmm(bias, rows, weight.t()))
