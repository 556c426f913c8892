"""Where tensors keep their memory."""

from __future__ import annotations

from typing import Any

__all__ = ["expected_tensors", "is_lazy", "is_tensor", "offset_of", "plain_kinds", "storages_of"]


def expected_tensors() -> list[tuple[Any, int, int]]:
    """Tensors with the addresses of their storages and of their gradients' storages, 0 for none.

    torch does not allocate their memory, so none of this shows up in a recording.
    """
    import torch

    def tensor() -> Any:
        return torch.frombuffer(bytearray(16), dtype=torch.float32)

    def address(tensor: Any) -> int:
        return 0 if tensor is None else int(tensor.untyped_storage().data_ptr())

    with torch.inference_mode(False):
        tensors = [tensor().requires_grad_() for _ in range(4)]
        for each in tensors[::2]:
            each.grad = tensor()
        return [(each, address(each), address(each.grad)) for each in tensors]


def plain_kinds() -> tuple[type, ...]:
    """The tensor types whose memory is where torch's own objects say it is."""
    import torch

    return torch.Tensor, torch.nn.Parameter


def is_tensor(value: object) -> bool:
    """Whether the value is a tensor of any kind."""
    import torch

    return issubclass(type(value), torch.Tensor)


def is_lazy(tensor: object) -> bool:
    """Whether it is a parameter of a lazy module, which has no shape before its first batch."""
    from torch.nn.parameter import is_lazy as has_no_shape

    return bool(has_no_shape(tensor))


_DEEPEST_WRAPPER = 4


def storages_of(tensor: Any, depth: int = 0) -> list[tuple[int, int]]:
    """The storages of a tensor, as (device, address); the device of a CPU tensor is -1.

    A sharded, quantized or otherwise wrapped tensor has the storages of the tensors inside it.
    """
    import torch

    if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
        flatten = getattr(tensor, "__tensor_flatten__", None)
        if flatten is not None and depth < _DEEPEST_WRAPPER:
            names, _ = flatten()
            # Some also list parts that are not tensors, as DTensor does its device mesh.
            parts = [part for name in names if is_tensor(part := getattr(tensor, name))]
            return [place for part in parts for place in storages_of(part, depth + 1)]
    if depth > 2 * _DEEPEST_WRAPPER:
        return []
    if tensor.layout is not torch.strided:
        return _sparse_storages(tensor)
    if tensor.device.type not in ("cpu", "cuda"):
        return []
    try:
        address = tensor.untyped_storage().data_ptr()
    except NotImplementedError:
        inside = _inside_transform(tensor)
        return [] if inside is None else storages_of(inside, depth + 1)
    except ValueError:
        if not is_lazy(tensor):
            raise
        return []
    return [(tensor.get_device(), address)] if address else []


def _inside_transform(tensor: Any) -> Any:
    """The tensor that torch.func wrapped while transforming a function; None if it did not."""
    import torch

    functions = getattr(torch._C, "_functorch", None)
    if functions is None or not functions.is_functorch_wrapped_tensor(tensor):
        return None
    return functions.get_unwrapped(tensor)


def _sparse_storages(tensor: Any) -> list[tuple[int, int]]:
    names = ("_indices", "_values", "crow_indices", "col_indices", "ccol_indices", "row_indices")
    found = []
    for name in names:
        try:
            part = getattr(tensor, name)()
        except (AttributeError, RuntimeError):
            continue
        if part.layout is not tensor.layout:
            found += storages_of(part)
    return found


def offset_of(tensor: Any) -> int:
    """Where in its storage a tensor begins; -1 if that has no meaning."""
    try:
        return int(tensor.storage_offset())
    except (RuntimeError, NotImplementedError, ValueError):
        return -1
