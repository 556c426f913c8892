"""Which kernel computes scaled dot product attention, and the operations that lead to it.

The order of preference and the conditions are those of ATen/native/transformers/cuda/sdp_utils.cpp.
A wrong choice is off by a whole attention matrix.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import Any

import torch

from gpumemprof.estimate.engine.device import Device
from gpumemprof.estimate.engine.shapes.checks import check_attention
from gpumemprof.estimate.rules.table import choice
from gpumemprof.estimate.rules.tensors import is_half

__all__ = ["CUDNN", "EFFICIENT", "FLASH", "MATH", "Attention", "chosen_kernel"]

CUDNN, FLASH, EFFICIENT, MATH = "cudnn", "flash", "efficient", "math"
HALF_TYPES = (torch.float16, torch.bfloat16)
# torch's numbers of the kernels, in the order of preference that a program can set.
KERNEL_NUMBERS = {0: MATH, 1: FLASH, 2: EFFICIENT, 3: CUDNN}
MASK_ALIGNMENT = 8
OLDEST_PREFERRED_CUDNN = 91500
aten = torch.ops.aten


@dataclass(frozen=True)
class Attention:
    """The arguments of one call, as the conditions of the kernels ask about them."""

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    mask: torch.Tensor | None
    dropout: float
    is_causal: bool
    enable_gqa: bool
    needs_gradient: bool

    @property
    def inputs(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        return self.query, self.key, self.value

    def has_types(self, *dtypes: torch.dtype) -> bool:
        first = self.query.dtype
        return bool(first in dtypes and all(tensor.dtype == first for tensor in self.inputs))

    def has_unit_strides(self, ignores_single: bool) -> bool:
        """The elements of a head, and those of a row of the mask, lie behind each other."""
        inputs_fit = all(bool(tensor.stride(-1) == 1) for tensor in self.inputs)
        if ignores_single and self.query.size(-1) == 1:
            inputs_fit = True
        return bool(inputs_fit and (self.mask is None or self.mask.stride(-1) == 1))

    def has_lengths(self) -> bool:
        return bool(self.query.size(-2) > 0 and self.key.size(-2) > 0)

    def has_matching_heads(self, supports_groups: bool, same_key_value: bool = True) -> bool:
        # Sizes are symbols while a program is compiled: they can be compared, not hashed.
        if any(tensor.size(0) != self.query.size(0) for tensor in self.inputs):
            return False
        query, key, value = (tensor.size(-3) for tensor in self.inputs)
        if self.enable_gqa and supports_groups:
            if same_key_value and key != value:
                return False
            return bool(query % key == 0 and query % value == 0)
        return bool(query == key == value)

    def mask_fits_cudnn(self) -> bool:
        mask = self.mask
        if mask is None:
            return True
        batch, heads, rows = self.query.shape[:3]
        if mask.requires_grad or mask.size(-2) not in (rows, 1):
            return False
        if mask.size(-1) not in (self.key.size(2), 1):
            return False
        if mask.dim() == 2:
            return True
        return mask.dim() == 4 and mask.size(0) in (1, batch) and mask.size(1) in (1, heads)


def cudnn_can(call: Attention, capability: tuple[int, int]) -> bool:
    if not (torch.backends.cuda.cudnn_sdp_enabled() and capability >= (8, 0)):
        return False
    if torch.get_deterministic_debug_mode() == 2:  # errors for kernels that are not
        return False
    if not call.has_types(*HALF_TYPES) or not call.mask_fits_cudnn():
        return False
    if not call.has_lengths() or not call.has_unit_strides(ignores_single=True):
        return False
    if not call.has_matching_heads(supports_groups=True, same_key_value=False):
        return False
    query_size, value_size = call.query.size(-1), call.value.size(-1)
    limit = 256 if capability[0] in (9, 10) else 128
    if max(query_size, value_size) > limit or query_size % 8 or value_size % 8:
        return False
    if call.key.size(2) == 1:
        return False
    return not (call.dropout and call.query.size(2) == 1)


def flash_can(call: Attention, capability: tuple[int, int]) -> bool:
    if not torch.backends.cuda.flash_sdp_enabled() or capability < (8, 0):
        return False
    if call.mask is not None or not call.has_types(*HALF_TYPES):
        return False
    size = call.query.size(-1)
    if any(tensor.size(-1) != size for tensor in call.inputs) or size > 256:
        return False
    is_tight = call.needs_gradient and _has_small_shared_memory(capability)
    if is_tight and size > 192 and (call.dropout > 0 or size <= 224):
        return False
    if call.is_causal and call.query.size(-2) != call.key.size(-2):
        return False
    return (
        call.has_matching_heads(supports_groups=True)
        and call.has_lengths()
        and call.has_unit_strides(ignores_single=True)
    )


def _has_small_shared_memory(capability: tuple[int, int]) -> bool:
    return (8, 6) <= capability <= (8, 9) or (12, 0) <= capability <= (12, 1)


def efficient_can(call: Attention, capability: tuple[int, int]) -> bool:
    if not torch.backends.cuda.mem_efficient_sdp_enabled():
        return False
    if not call.has_types(torch.float16, torch.bfloat16, torch.float32):
        return False
    if capability < (8, 0) and call.query.dtype == torch.bfloat16:
        return False
    query_size, value_size = call.query.size(-1), call.value.size(-1)
    alignment = 1
    if capability >= (8, 0) or (capability >= (7, 0) and is_half(call.query)):
        alignment = 8 if is_half(call.query) else 4
    if query_size != call.key.size(-1) or query_size % alignment or value_size % alignment:
        return False
    return (
        call.has_lengths()
        and call.has_unit_strides(ignores_single=False)
        and call.has_matching_heads(supports_groups=False)
    )


def prefers_cudnn(device: Device) -> bool:
    """Whether torch asks cuDNN first: on these cards, with a cuDNN that is new enough."""
    if device.card.capability[0] not in (9, 10) or device.torch_version < (2, 9):
        return False
    if os.environ.get("TORCH_CUDNN_SDPA_DEPRIORITIZED") == "1":
        return False
    found = torch.backends.cudnn.version()
    return device.torch_version < (2, 10) or found is None or found > OLDEST_PREFERRED_CUDNN


def preferred_kernels(device: Device) -> list[str]:
    """The kernels in torch's order; a program changes it with sdpa_kernel(set_priority=True)."""
    order = [KERNEL_NUMBERS[n] for n in torch._C._get_sdp_priority_order() if n in KERNEL_NUMBERS]
    if order == [FLASH, EFFICIENT, MATH, CUDNN] and prefers_cudnn(device):
        return [CUDNN, FLASH, EFFICIENT, MATH]
    return order


_ENABLED = (
    torch.backends.cuda.flash_sdp_enabled,
    torch.backends.cuda.mem_efficient_sdp_enabled,
    torch.backends.cuda.cudnn_sdp_enabled,
)


def _gives_packed_to_cudnn() -> bool:
    return os.environ.get("TORCH_CUDNN_SDPA_NESTED_TENSOR_ENABLED") == "1"


def chosen_kernel(device: Device, call: Attention, is_packed: bool = False) -> str:
    """`is_packed`: of sequences without padding, which cuDNN's is not given by default.

    Raises what torch raises where the program allows only kernels that cannot compute the call.
    """
    conditions = {CUDNN: cudnn_can, FLASH: flash_can, EFFICIENT: efficient_can}
    has_heads = call.query.dim() == call.key.dim() == call.value.dim() == 4
    for kernel in preferred_kernels(device):
        if kernel == MATH:
            if torch.backends.cuda.math_sdp_enabled():
                return MATH
        elif is_packed and kernel == CUDNN and not _gives_packed_to_cudnn():
            continue
        elif has_heads and conditions[kernel](call, device.card.capability):
            return kernel
    if any(is_enabled() for is_enabled in _ENABLED):
        raise RuntimeError("No available kernel. Aborting execution.")
    raise RuntimeError(
        "No viable backend for scaled_dot_product_attention was found. This is likely due to "
        "turning off both the math kernel and the fused kernels."
    )


def additive_mask(mask: torch.Tensor | None, like: torch.Tensor) -> torch.Tensor | None:
    """A boolean mask as numbers that are added: 0 and minus infinity."""
    if mask is None or mask.dtype != torch.bool:
        return mask
    excluded = torch.scalar_tensor(-math.inf, dtype=like.dtype, device=like.device)
    included = torch.scalar_tensor(0.0, dtype=like.dtype, device=like.device)
    return torch.where(mask, included, excluded)


def aligned_mask(mask: torch.Tensor, call: Attention) -> torch.Tensor:
    """The mask with rows of a multiple of 8 elements, for all batches and heads."""
    columns = mask.size(-1)
    if columns % MASK_ALIGNMENT:
        padded = torch.nn.functional.pad(mask, (0, MASK_ALIGNMENT - columns % MASK_ALIGNMENT))
        mask = padded[..., :columns]
    batch, heads, rows = call.query.shape[:3]
    return mask.expand(batch, heads, rows, call.key.size(2))


@choice("scaled_dot_product_attention")
def scaled_dot_product_attention(
    device: Device,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None = None,
    dropout: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    check_attention(query, key, value, mask)
    needs_gradient = torch.is_grad_enabled() and any(t.requires_grad for t in (query, key, value))
    call = Attention(query, key, value, mask, dropout, is_causal, enable_gqa, needs_gradient)
    kernel = chosen_kernel(device, call)
    device.note("kernel", f"attention is computed by the {kernel} kernel")
    if kernel == FLASH:
        return _flash(call, scale)
    if kernel == CUDNN:
        outputs = aten._scaled_dot_product_cudnn_attention(
            query, key, value, additive_mask(mask, query), needs_gradient, dropout, is_causal,
            False, scale=scale,
        )  # fmt: skip
        return outputs[0]
    mask = additive_mask(mask, query)
    if kernel == EFFICIENT:
        if mask is not None:
            mask = aligned_mask(mask, call)
        outputs = aten._scaled_dot_product_efficient_attention(
            query, key, value, mask, needs_gradient, dropout, is_causal, scale=scale
        )
        return outputs[0]
    with device.adding_in_place():  # the mask to the scores
        outputs = aten._scaled_dot_product_attention_math(
            query, key, value, mask, dropout, is_causal, None, scale=scale, enable_gqa=enable_gqa
        )
    return outputs[0]


def _flash(call: Attention, scale: float | None) -> torch.Tensor:
    """Heads are padded to a multiple of 8 elements."""
    size = call.query.size(-1)
    inputs = call.inputs
    if size % 8:
        padding = (0, 8 - size % 8)
        query, key, value = (torch.nn.functional.pad(tensor, padding) for tensor in inputs)
    else:
        query, key, value = inputs
    outputs = aten._scaled_dot_product_flash_attention(
        query, key, value, call.dropout, call.is_causal, False,
        scale=1 / math.sqrt(size) if scale is None else scale,
    )  # fmt: skip
    result: torch.Tensor = outputs[0]
    return result[..., :size] if size % 8 else result
