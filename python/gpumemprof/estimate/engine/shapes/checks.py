"""Errors that torch's CUDA kernels raise for their arguments and its shape functions do not.

The texts are torch's own, as an H200 with torch 2.11 printed them: the program is wrong there, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from gpumemprof.estimate.engine.fake_mode import outside_modes
from gpumemprof.estimate.engine.shapes.type_checks import (
    TYPE_CHECKS,
    Check,
    cpp_name,
    expect_same,
    is_integer,
    not_implemented,
    refuse_cast,
    short_name,
)

__all__ = ["as_torch_says", "check_arguments", "check_attention"]

_MOST_ELEMENTS = 1 << 26
_MOST_WITH_MEMORY = 1 << 20


def _short(tensor: torch.Tensor) -> str:
    return short_name(tensor.dtype)


def _cpp(tensor: torch.Tensor) -> str:
    return cpp_name(tensor.dtype)


def _mm(args: Sequence[Any], _: Mapping[str, Any]) -> None:
    one, other = args[:2]
    if one.dtype != other.dtype:
        raise RuntimeError(
            f"expected mat1 and mat2 to have the same dtype, but got: {_cpp(one)} != {_cpp(other)}"
        )
    if is_integer(one):
        raise not_implemented("addmm_cuda", one)


def _addmm(args: Sequence[Any], _: Mapping[str, Any]) -> None:
    summand, one, other = args[:3]
    for name, tensor in (("self", summand), ("mat1", one)):
        if tensor.dtype != other.dtype:
            raise RuntimeError(
                f"{name} and mat2 must have the same dtype, but got {_short(tensor)} and "
                f"{_short(other)}"
            )
    if is_integer(one):
        raise not_implemented("addmm_cuda", one)


def _same(first: int, second: int) -> Check:
    return lambda args, _: expect_same(
        args[first] if len(args) > first else None, args[second] if len(args) > second else None
    )


def _products(first: int, second: int, kernel: str) -> Check:
    """Products of matrices and vectors that cuBLAS computes: floating point, of one type."""

    def check(args: Sequence[Any], _: Mapping[str, Any]) -> None:
        expect_same(args[first], args[second])
        if is_integer(args[first]):
            raise not_implemented(kernel, args[first])

    return check


def _embedding(args: Sequence[Any], _: Mapping[str, Any]) -> None:
    if args[1].dtype not in (torch.int64, torch.int32):
        raise RuntimeError(
            "Expected tensor for argument #1 'indices' to have one of the following scalar types: "
            f"Long, Int; but got {_kind(args[1])} instead (while checking arguments for embedding)"
        )


def _kind(tensor: torch.Tensor) -> str:
    return f"torch.{'cuda.' if tensor.device.type == 'cuda' else ''}{_short(tensor)}Tensor"


def _convolution(args: Sequence[Any], _: Mapping[str, Any]) -> None:
    tensor, weight = args[:2]
    if tensor.device == weight.device and tensor.dtype == weight.dtype:
        _convolution_sizes(args)
        return
    if tensor.device.type == "cpu":
        raise RuntimeError(
            "Expected all tensors to be on the same device, but got weight is on "
            f"{weight.device}, different from other tensors on cpu (when checking argument in "
            "method wrapper_CUDA___slow_conv2d_forward)"
        )
    raise RuntimeError(
        f"Input type ({_kind(tensor)}) and weight type ({_kind(weight)}) should be the same"
    )


def _convolution_sizes(args: Sequence[Any]) -> None:
    tensor, weight, _, _, padding, dilation, is_transposed = args[:7]
    if is_transposed:
        if tensor.dim() == weight.dim() and tensor.shape[1] != weight.shape[0]:
            raise RuntimeError(
                f"Given transposed=1, weight of size {list(weight.shape)}, expected input"
                f"{list(tensor.shape)} to have {weight.shape[0]} channels, but got "
                f"{tensor.shape[1]} channels instead"
            )
        return
    kernel = [(size - 1) * step + 1 for size, step in zip(weight.shape[2:], dilation)]
    sizes = [size + 2 * extra for size, extra in zip(tensor.shape[2:], padding)]
    if any(size < needed for size, needed in zip(sizes, kernel)):
        raise RuntimeError(
            f"Calculated padded input size per channel: ({' x '.join(map(str, sizes))}). Kernel "
            f"size: ({' x '.join(map(str, kernel))}). Kernel size can't be greater than actual "
            "input size"
        )


def _nll_loss(args: Sequence[Any], _: Mapping[str, Any]) -> None:
    expect_same(args[0], args[2] if len(args) > 2 else None)
    if args[1].dtype not in (torch.int64, torch.uint8):
        raise not_implemented("nll_loss_forward_reduce_cuda_kernel_2d_index", args[1])


def _index(args: Sequence[Any], _: Mapping[str, Any]) -> None:
    tensor = args[0]
    for each in args[1]:
        if each is not None and tensor.device.type == "cpu" and each.device.type != "cpu":
            raise RuntimeError(
                "indices should be either on cpu or on the same device as the indexed tensor (cpu)"
            )


def _index_put(args: Sequence[Any], _: Mapping[str, Any]) -> None:
    _index(args, _)
    if args[0].dtype != args[2].dtype:
        raise RuntimeError(
            "Index put requires the source and destination dtypes match, got "
            f"{_short(args[0])} for the destination and {_short(args[2])} for the source."
        )


def _index_add(args: Sequence[Any], _: Mapping[str, Any]) -> None:
    if args[0].dtype != args[3].dtype:
        raise RuntimeError(
            f"index_add_(): self ({_short(args[0])}) and source ({_short(args[3])}) must have the "
            "same scalar type"
        )


def _softmax(args: Sequence[Any], _: Mapping[str, Any]) -> None:
    if is_integer(args[0]):
        raise not_implemented("host_softmax", args[0])


def _multinomial(args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    tensor, count = args[:2]
    if not tensor.dtype.is_floating_point:
        raise RuntimeError(
            "multinomial only supports floating-point dtypes for input, got: " + _short(tensor)
        )
    is_replaced = args[2] if len(args) > 2 else kwargs.get("replacement", False)
    if not is_replaced and count > tensor.shape[-1]:
        raise RuntimeError(
            "cannot sample n_sample > prob_dist.size(-1) samples without replacement"
        )


def check_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
) -> None:
    """What torch checks before it chooses a kernel."""
    if not query.dtype == key.dtype == value.dtype:
        raise RuntimeError(
            "Expected query, key, and value to have the same dtype, but got query.dtype: "
            f"{_cpp(query)} key.dtype: {_cpp(key)} and value.dtype: {_cpp(value)} instead."
        )
    if mask is not None and mask.dtype not in (torch.bool, torch.float32, query.dtype):
        raise RuntimeError(
            "Expected attn_mask dtype to be bool or float or to match query dtype, but got "
            f"attn_mask.dtype: {_cpp(mask)} and  query.dtype: {_cpp(query)} instead."
        )


def _bitwise(kernel: str) -> Check:
    def check(args: Sequence[Any], _: Mapping[str, Any]) -> None:
        for each in args[:2]:
            if isinstance(each, torch.Tensor) and not is_integer(each):
                raise not_implemented(kernel, each)

    return check


def _in_place(args: Sequence[Any], _: Mapping[str, Any]) -> None:
    """A result must fit the type of the tensor that it is written to."""
    if len(args) < 2 or not isinstance(args[1], (torch.Tensor, int, float, complex)):
        return
    result = torch.result_type(args[0], args[1])
    if not torch.can_cast(result, args[0].dtype):
        refuse_cast(result, args[0])


def _in_place_division(args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    if kwargs.get("rounding_mode") is None and is_integer(args[0]):
        refuse_cast(torch.get_default_dtype(), args[0])
    _in_place(args, kwargs)


_CHECKS: dict[str, Check] = {
    **TYPE_CHECKS,
    "mm": _mm,
    "addmm": _addmm,
    "bmm": _products(0, 1, "baddbmm_cuda"),
    "mv": _products(0, 1, "addmv_impl_cuda"),
    "addbmm": _products(1, 2, "baddbmm_cuda"),
    "addmv": _products(1, 2, "addmv_impl_cuda"),
    "convolution": _convolution,
    "embedding": _embedding,
    "nll_loss_forward": _nll_loss,
    "nll_loss2d_forward": lambda args, _: expect_same(args[0], args[2]),
    "index": _index,
    "index_put": _index_put,
    "index_put_": _index_put,
    "_index_put_impl_": _index_put,
    "index_add": _index_add,
    "index_add_": _index_add,
    "_softmax": _softmax,
    "_log_softmax": _softmax,
    "multinomial": _multinomial,
    "native_layer_norm": _same(0, 2),
    "native_group_norm": _same(0, 1),
    "grid_sampler_2d": _same(0, 1),
    "grid_sampler_3d": _same(0, 1),
    "bitwise_and": _bitwise("bitwise_and_cuda"),
    "bitwise_or": _bitwise("bitwise_or_cuda"),
    "bitwise_xor": _bitwise("bitwise_xor_cuda"),
    "add_": _in_place,
    "sub_": _in_place,
    "mul_": _in_place,
    "div_": _in_place_division,
}
# Of operations that call another one: its name, and the argument's.
_NAMES_OF_KERNELS = {
    "embedding": ("_index_select", "index"),
    "stack": ("cat", "tensors"),
    "grid_sampler_2d": ("_grid_sampler_2d", "grid"),
}
_ON_ANY_DEVICE = ("convolution", "index", "index_put", "index_put_", "_index_put_impl_")


def check_arguments(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Raise what torch's CUDA kernel raises for these arguments, if it is known to."""
    check = _CHECKS.get(name)
    if check is None or not args or not isinstance(args[0], torch.Tensor):
        return
    if name in _ON_ANY_DEVICE or args[0].device.type == "cuda":
        try:
            check(args, kwargs)
        except RuntimeError as error:
            error.__dict__["is_as_torch_says"] = True
            raise


def as_torch_says(
    func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], error: Exception
) -> Exception:
    """What torch itself says where a shape function found an error, in words of its own."""
    if "is_as_torch_says" in error.__dict__:
        return error
    try:
        check_arguments(func._schema.name.partition("::")[2], args, kwargs)
    except RuntimeError as found:
        return found
    tensors = [each for each in args if isinstance(each, torch.Tensor)]
    devices = {each.device for each in _all_tensors((*args, *kwargs.values()))}
    if len(devices) > 1:
        return _about_devices(func, args, error)
    if sum(each.numel() for each in tensors) > _MOST_ELEMENTS:
        return error
    try:
        with outside_modes(), torch.no_grad():
            func(
                *(_without_memory(each) for each in args),
                **{name: _without_memory(each) for name, each in kwargs.items()},
            )
    except (RuntimeError, IndexError, ValueError, TypeError) as found:
        if "stride" in str(found):
            return error  # Those of the tensors here are others.
        said = type(found)(*found.args)
        said.__dict__["is_as_torch_says"] = True
        return said
    return error


def _all_tensors(values: Sequence[Any]) -> list[torch.Tensor]:
    found = []
    for each in values:
        if isinstance(each, FakeTensor) and each.dim():
            found.append(each)
        elif isinstance(each, (list, tuple)):
            found += _all_tensors(each)
    return found


def _without_memory(value: Any) -> Any:
    """A real tensor of the same shape; all elements of a large one are the same one."""
    if isinstance(value, FakeTensor):
        if value.numel() > _MOST_WITH_MEMORY:
            return torch.zeros((), dtype=value.dtype).expand(value.shape)
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype).zero_()
    if isinstance(value, (list, tuple)):
        return type(value)(_without_memory(each) for each in value)
    return torch.device("cpu") if isinstance(value, torch.device) else value


def _about_devices(func: Any, args: Sequence[Any], error: Exception) -> Exception:
    """Kernels that are not computed element by element name the argument."""
    if torch.Tag.pointwise in func.tags:
        return error
    common = None
    for argument, value in zip(func._schema.arguments, args):
        for each in _all_tensors((value,)):
            common = common or each.device
            if each.device != common:
                name = func._schema.name.partition("::")[2]
                name, label = _NAMES_OF_KERNELS.get(name, (name, argument.name))
                return RuntimeError(
                    "Expected all tensors to be on the same device, but got "
                    f"{label} is on {each.device}, different from other tensors on "
                    f"{common} (when checking argument in method wrapper_CUDA_{name})"
                )
    return error
