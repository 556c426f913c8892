"""Types of arguments that torch's CUDA kernels refuse and its shape functions accept.

The texts of checks that torch makes before it chooses a kernel are its own. Where a CUDA kernel
itself has no code for a type, the type and the wording are torch's; the kernel's name may differ
between releases.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Callable

import torch

__all__ = [
    "TYPE_CHECKS",
    "Check",
    "cpp_name",
    "expect_same",
    "is_integer",
    "not_implemented",
    "refuse_cast",
    "short_name",
]

Check = Callable[[Sequence[Any], Mapping[str, Any]], None]

# Names of types in messages.
_NAMES = {
    torch.float32: ("Float", "float"),
    torch.float64: ("Double", "double"),
    torch.float16: ("Half", "c10::Half"),
    torch.bfloat16: ("BFloat16", "c10::BFloat16"),
    torch.int64: ("Long", "long int"),
    torch.int32: ("Int", "int"),
    torch.int16: ("Short", "short"),
    torch.int8: ("Char", "signed char"),
    torch.uint8: ("Byte", "unsigned char"),
    torch.bool: ("Bool", "bool"),
    torch.complex64: ("ComplexFloat", "c10::complex<float>"),
    torch.complex128: ("ComplexDouble", "c10::complex<double>"),
}


def short_name(dtype: torch.dtype) -> str:
    """``Float``."""
    return _NAMES.get(dtype, (str(dtype), ""))[0]


def cpp_name(dtype: torch.dtype) -> str:
    """``c10::Half``."""
    return _NAMES.get(dtype, ("", str(dtype)))[1]


def is_integer(tensor: torch.Tensor) -> bool:
    return not tensor.dtype.is_floating_point and not tensor.dtype.is_complex


def not_implemented(kernel: str, tensor: torch.Tensor) -> NotImplementedError:
    return NotImplementedError(f"\"{kernel}\" not implemented for '{short_name(tensor.dtype)}'")


def expect_same(one: Any, other: Any) -> None:
    are_tensors = isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor)
    if are_tensors and one.dtype != other.dtype:
        raise RuntimeError(
            f"expected scalar type {short_name(one.dtype)} but found {short_name(other.dtype)}"
        )


def refuse_cast(result: torch.dtype, target: torch.Tensor) -> None:
    raise RuntimeError(
        f"result type {short_name(result)} can't be cast to the desired output type "
        f"{short_name(target.dtype)}"
    )


def _elementwise(*places: int) -> Check:
    """Kernels that read elements side by side, without converting them."""

    def check(args: Sequence[Any], _: Mapping[str, Any]) -> None:
        found = [args[place] for place in places if len(args) > place]
        kinds = [each for each in found if isinstance(each, torch.Tensor)]
        if len({each.dtype for each in kinds}) < 2:
            return
        common = kinds[0].dtype
        for each in kinds[1:]:
            common = torch.promote_types(common, each.dtype)
        other = next(each.dtype for each in kinds if each.dtype != common)
        raise RuntimeError(f"Found dtype {short_name(other)} but expected {short_name(common)}")

    return check


def _floating(kernel: str) -> Check:
    """Kernels without code for integers."""

    def check(args: Sequence[Any], _: Mapping[str, Any]) -> None:
        if is_integer(args[0]):
            raise not_implemented(kernel, args[0])

    return check


def _half(kernel: str) -> Check:
    """Linear algebra in half precision does not exist."""

    def check(args: Sequence[Any], _: Mapping[str, Any]) -> None:
        if args[0].dtype in (torch.float16, torch.bfloat16):
            raise not_implemented(kernel, args[0])

    return check


def _copying(kernel: str) -> Check:
    """Kernels that only move elements, written for booleans but for no other integers."""

    def check(args: Sequence[Any], _: Mapping[str, Any]) -> None:
        if is_integer(args[0]) and args[0].dtype != torch.bool:
            raise not_implemented(kernel, args[0])

    return check


def _remainder(kernel: str) -> Check:
    """Neither complex numbers nor booleans have a remainder."""

    def check(args: Sequence[Any], _: Mapping[str, Any]) -> None:
        common = torch.result_type(args[0], args[1])
        if common.is_complex or common == torch.bool:
            raise not_implemented(kernel, torch.empty((), dtype=common, device="meta"))

    return check


def _no_complex(sentence: str) -> Check:
    def check(args: Sequence[Any], _: Mapping[str, Any]) -> None:
        if args[0].dtype.is_complex:
            raise RuntimeError(sentence)

    return check


def _distances(args: Sequence[Any], _: Mapping[str, Any]) -> None:
    """The kernel; products stand in for it where either side has more than 25 rows and p is 2."""
    expect_same(args[0], args[1])
    rows = max(args[0].shape[-2], args[1].shape[-2])
    mode = args[3] if len(args) > 3 else None
    is_product = args[2] == 2 and (mode == 1 or (not mode and rows > _MOST_ROWS_OF_KERNEL))
    is_empty = not args[0].numel() or not args[1].numel()
    if not is_product and not is_empty and args[0].dtype in (torch.float16, torch.bfloat16):
        raise not_implemented("cdist_cuda", args[0])


def _fourier(args: Sequence[Any], _: Mapping[str, Any]) -> None:
    """cuFFT transforms halves in powers of two alone, and no bfloat16."""
    if args[0].dtype == torch.bfloat16:
        raise RuntimeError("cuFFT doesn't support tensor of type: BFloat16")
    if args[0].dtype not in (torch.float16, torch.complex32):
        return
    sizes = [args[0].shape[place] for place in args[1]]
    if sizes and len(args) > 3 and not isinstance(args[3], bool):
        sizes[-1] = int(args[3])  # Of a complex signal whose transform is real.
    if any(size & (size - 1) for size in sizes):
        raise RuntimeError(
            "cuFFT only supports dimensions whose sizes are powers of two when computing in half "
            f"precision, but got a signal size of{sizes}"
        )


def _no_boolean(sentence: str) -> Check:
    def check(args: Sequence[Any], _: Mapping[str, Any]) -> None:
        if args[0].dtype == torch.bool:
            raise RuntimeError(sentence)

    return check


def _spread(args: Sequence[Any], _: Mapping[str, Any]) -> None:
    if is_integer(args[0]):
        raise RuntimeError("std and var only support floating point and complex dtypes")


def _index_copy(args: Sequence[Any], _: Mapping[str, Any]) -> None:
    if args[0].dtype != args[3].dtype:
        raise RuntimeError(
            "index_copy_(): self and source expected to have the same dtype, but got (self) "
            f"{short_name(args[0].dtype)} and (source) {short_name(args[3].dtype)}"
        )


def _masked_fill(args: Sequence[Any], _: Mapping[str, Any]) -> None:
    if args[1].dtype != torch.bool:
        raise RuntimeError(
            "masked_fill_ only supports boolean masks, but got mask with dtype "
            f"{cpp_name(args[1].dtype)}"
        )


def _complex(args: Sequence[Any], _: Mapping[str, Any]) -> None:
    if args[0].dtype != args[1].dtype:
        raise RuntimeError(
            f"Expected object of scalar type {short_name(args[0].dtype)} but got scalar type "
            f"{short_name(args[1].dtype)} for second argument"
        )


def _loss_with_logits(args: Sequence[Any], _: Mapping[str, Any]) -> None:
    """It computes in place, in the target's type."""
    result = torch.result_type(args[0], args[1])
    if not torch.can_cast(result, args[1].dtype):
        refuse_cast(result, args[1])


def _batch_norm(args: Sequence[Any], _: Mapping[str, Any]) -> None:
    """Weights have the type of the input, or are in single precision."""
    if is_integer(args[0]):
        raise not_implemented("batch_norm_stats_cuda", args[0])
    for weight in args[1:3]:
        if isinstance(weight, torch.Tensor) and weight.dtype != args[0].dtype:
            expect_same(torch.empty((), dtype=torch.float32, device="meta"), weight)


_MOST_ROWS_OF_KERNEL = 25
_BATCH_NORMS = (
    "native_batch_norm",
    "cudnn_batch_norm",
    "_native_batch_norm_legit",
    "_batch_norm_with_update",
)
# What they were made for, by kernel.
_FLOATING_KERNELS = {
    "gelu": "GeluCUDAKernelImpl",
    "silu": "silu_cuda",
    "_adaptive_avg_pool2d": "adaptive_avg_pool2d_cuda",
    "adaptive_max_pool2d": "adaptive_max_pool2d_cuda",
    "avg_pool2d": "avg_pool2d_out_cuda_frame",
    "avg_pool3d": "avg_pool3d_out_cuda",
    "max_pool2d_with_indices": "max_pool2d_with_indices_out_cuda_frame",
    "upsample_bilinear2d": "upsample_bilinear2d_out_frame",
    "upsample_bicubic2d": "upsample_bicubic2d_out_frame",
    "upsample_linear1d": "upsample_linear1d_out_frame",
    "upsample_trilinear3d": "upsample_trilinear3d_out_frame",
    "bernoulli": "bernoulli_tensor_cuda_p_",
    "uniform_": "check_uniform_bounds",
    "native_dropout": "fused_dropout",
}
_HALF_KERNELS = {
    "_linalg_svd": "svd_cuda_gesvdjBatched",
    "linalg_cholesky_ex": "cholesky_cusolver",
    "_linalg_eigh": "linalg_eigh_cuda",
    "linalg_lu_factor_ex": "lu_factor_cusolver",
    "_linalg_solve_ex": "lu_factor_cusolver",
    "_linalg_det": "lu_factor_cusolver",
    "_linalg_slogdet": "lu_factor_cusolver",
    "linalg_qr": "geqrf_cuda",
}

TYPE_CHECKS: dict[str, Check] = {
    "binary_cross_entropy": _elementwise(0, 1),
    "binary_cross_entropy_backward": _elementwise(1, 2),
    "mse_loss_backward": _elementwise(1, 2),
    "huber_loss_backward": _elementwise(1, 2),
    "binary_cross_entropy_with_logits": _loss_with_logits,
    "index_copy": _index_copy,
    "index_copy_": _index_copy,
    "masked_fill": _masked_fill,
    "masked_fill_": _masked_fill,
    "complex": _complex,
    "var": _spread,
    "std": _spread,
    "var_mean": _spread,
    "std_mean": _spread,
    "_cdist_forward": _distances,
    "_fft_c2c": _fourier,
    "_fft_c2r": _fourier,
    "_fft_r2c": _fourier,
    "im2col": _copying("im2col_out_cuda"),
    "col2im": _copying("col2im_out_cuda"),
    "remainder": _remainder("remainder_cuda"),
    "remainder_": _remainder("remainder_cuda"),
    "fmod": _remainder("fmod_cuda"),
    "fmod_": _remainder("fmod_cuda"),
    "sort": _no_complex("Sort currently does not support complex dtypes on CUDA."),
    "relu": _no_boolean("Boolean inputs not supported for relu"),
    "argmax": _no_boolean("argmax(): does not support bool input"),
    "argmin": _no_boolean("argmin(): does not support bool input"),
    **dict.fromkeys(_BATCH_NORMS, _batch_norm),
    **{name: _floating(kernel) for name, kernel in _FLOATING_KERNELS.items()},
    **{name: _half(kernel) for name, kernel in _HALF_KERNELS.items()},
}
