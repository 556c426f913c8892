"""nn.TransformerEncoder and nn.MultiheadAttention in evaluation: torch's fused C++ functions.

They have no shape functions, and the encoder's work on nested tensors: sequences without their
padding. Here they are made of the operations that the C++ code calls, in its order
(ATen/native/transformers/transformer.cpp, cuda/attention.cu, native/nested/NestedTensorMath.cpp).
"""

from __future__ import annotations

from typing import Any, Callable

import torch

from gpumemprof.estimate.engine.device import Device
from gpumemprof.estimate.engine.fake_mode import outside_modes
from gpumemprof.estimate.engine.values import is_assumed, known_value, set_known
from gpumemprof.estimate.patches.patcher import Patcher
from gpumemprof.estimate.patches.transformer.attention import FusedAttention
from gpumemprof.estimate.patches.transformer.layer import FusedLayer
from gpumemprof.estimate.patches.transformer.packed import PackedSequences

__all__ = ["install"]


def install(patcher: Patcher, device: Device) -> None:
    sequences = PackedSequences(device)
    attention = FusedAttention(device)
    functions: dict[str, Callable[..., Any]] = {
        "_nested_tensor_from_mask": sequences.from_mask,
        "_nested_tensor_from_mask_left_aligned": sequences.are_left_aligned,
        "_native_multi_head_attention": attention.attend,
        "_transformer_encoder_layer_fwd": FusedLayer(attention).forward,
    }
    for name, function in functions.items():
        patcher.set_if_present(torch, name, _not_compiled(function))
    layers = torch.nn.functional
    if hasattr(layers, "_canonical_mask"):
        patcher.set(layers, "_canonical_mask", _keeping_values(layers._canonical_mask))


def _not_compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    call._torchdynamo_disable = True  # type: ignore[attr-defined]  # as what it stands for
    return call


def _keeping_values(make_mask: Callable[..., Any]) -> Callable[..., Any]:
    """Floating-point masks of known boolean ones: which elements they hide decides about sizes."""

    def make(mask: Any, *args: Any, **kwargs: Any) -> Any:
        made = make_mask(mask, *args, **kwargs)
        if made is None or made is mask or torch.compiler.is_compiling():
            return made
        known = known_value(mask)
        if known is not None and known.dtype == torch.bool:
            with outside_modes():
                value = torch.zeros(known.shape, dtype=made.dtype).masked_fill_(known, -torch.inf)
            set_known(made, value, is_assumed(mask))
        return made

    return make
