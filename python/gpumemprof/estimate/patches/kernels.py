"""Which kernels torch would choose on the card: attention, convolutions, fused operations."""

from __future__ import annotations

from typing import Any

import torch

from gpumemprof.estimate.engine.device import Device
from gpumemprof.estimate.patches.patcher import Patcher
from gpumemprof.estimate.rules.table import chosen

__all__ = ["install"]


def install(patcher: Patcher, device: Device) -> None:
    library = torch.library.Library("aten", "IMPL")
    patcher.on_undo(library._destroy)
    if not torch.backends.cuda.is_built():
        _claim_cuda_kernels(library)
    _choose_attention(library, device)
    _choose_convolution(patcher, device)


def _claim_cuda_kernels(library: Any) -> None:
    """Builds without CUDA decompose operations that have a kernel on the CPU and on CUDA.

    They must reach the dispatch mode whole, as they do in builds with CUDA. The kernel itself is
    never called.
    """
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    for name in torch._C._dispatch_get_all_op_names():
        if not name.startswith("aten::") or has_kernel(name, "CUDA"):
            continue
        if has_kernel(name, "CompositeImplicitAutograd") and has_kernel(name, "CPU"):
            try:
                library.impl(name[6:], _never_called, "CUDA")
            except RuntimeError:  # Some do not accept another kernel, and need none.
                continue


def _never_called(*_: Any, **__: Any) -> Any:
    raise NotImplementedError("fake tensors only")


def _choose_attention(library: Any, device: Device) -> None:
    choose = chosen("scaled_dot_product_attention")
    if choose is None:
        return

    def attention(
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attn_mask: Any = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        *,
        scale: Any = None,
        enable_gqa: bool = False,
    ) -> Any:
        return choose(
            device,
            query,
            key,
            value,
            attn_mask,
            dropout_p,
            is_causal,
            scale=scale,
            enable_gqa=enable_gqa,
        )

    for key in ("AutogradCUDA", "CUDA"):
        library.impl("scaled_dot_product_attention", attention, key)


_CONVOLUTION_ARGUMENTS = (
    "input",
    "weight",
    "bias",
    "stride",
    "padding",
    "dilation",
    "transposed",
    "output_padding",
    "groups",
)


def _choose_convolution(patcher: Patcher, device: Device) -> None:
    """torch asks the driver which convolution it would use; the rules know."""
    real_select = torch._C._select_conv_backend
    real_layout = torch._C._conv_determine_backend_memory_format

    def select(*args: Any, **kwargs: Any) -> Any:
        named = dict(zip(_CONVOLUTION_ARGUMENTS, args), **kwargs)
        choose = chosen("convolution_backend") or _usual_backend
        if named["input"].device.type != "cuda":
            return real_select(*args, **kwargs)
        return choose(device, *(named.get(name) for name in _CONVOLUTION_ARGUMENTS))

    def layout(tensor: torch.Tensor, weight: torch.Tensor, backend: Any) -> Any:
        if tensor.device.type != "cuda":
            return real_layout(tensor, weight, backend)
        choose = chosen("convolution_layout") or _usual_layout
        return choose(device, tensor, weight, backend)

    patcher.set(torch._C, "_select_conv_backend", select)
    patcher.set(torch._C, "_conv_determine_backend_memory_format", layout)


def _is_channels_last(tensor: torch.Tensor) -> bool:
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    wanted = formats.get(tensor.dim())
    return (
        wanted is not None
        and tensor.is_contiguous(memory_format=wanted)
        and not tensor.is_contiguous()
    )


def _usual_backend(device: Device, tensor: torch.Tensor, weight: torch.Tensor, *more: Any) -> Any:
    """cuDNN, except for depthwise convolutions, which have their own kernel."""
    transposed, groups = more[4], more[6]
    backends = torch._C._ConvBackend
    is_depthwise = groups > 1 and groups == tensor.shape[1] and tensor.dim() == 4
    is_plain = not _is_channels_last(tensor) and not _is_channels_last(weight)
    if is_depthwise and is_plain and not transposed:
        return backends.CudaDepthwise2d
    return backends.CudnnTranspose if transposed else backends.Cudnn


def _usual_layout(device: Device, tensor: torch.Tensor, weight: torch.Tensor, backend: Any) -> Any:
    if backend != torch._C._ConvBackend.CudaDepthwise2d and (
        _is_channels_last(tensor) or (_is_channels_last(weight) and weight.dim() == tensor.dim())
    ):
        return torch.channels_last if tensor.dim() == 4 else torch.channels_last_3d
    return torch.contiguous_format
