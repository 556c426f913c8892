"""Sparse tensors: torch's shape functions lose the number of their elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Callable

import torch

from gpumemprof.estimate.engine.fake_mode import outside_modes
from gpumemprof.estimate.engine.operation import Operation
from gpumemprof.estimate.engine.values import known_value
from gpumemprof.estimate.rules.tensors import divide_up, round_up

__all__ = ["SPARSE_FUNCTIONS", "may_be_sparse"]

aten = torch.ops.aten
_SPARSE_ARGUMENT = 9  # of _embedding_bag_backward
_PADDING_ARGUMENT = 11
_MEAN = 1  # a mode of EmbeddingBag
_SORTED_TOGETHER = 4352  # elements, by a block of threads
_DIFFERENT = "_has_different_places"  # a mark of tensors whose elements are out of order alone
_SPARSE_SECOND = ("sparse_mask", "add_", "addmm", "_sparse_addmm")


def may_be_sparse(op: Operation, args: Sequence[Any]) -> bool:
    if op.name == "_embedding_bag_backward":
        return bool(args[_SPARSE_ARGUMENT])
    if op.name == "add":
        return _is_sparse(args[0]) or _is_sparse(args[1])
    return _is_sparse(args[1 if op.name in _SPARSE_SECOND else 0])


def _is_sparse(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.layout is torch.sparse_coo


def _sparse(
    shape: Sequence[int], indices: torch.Tensor, values: torch.Tensor, is_coalesced: bool = False
) -> torch.Tensor:
    return aten._sparse_coo_tensor_with_dims_and_tensors.default(
        indices.shape[0],
        values.dim() - 1,
        list(shape),
        indices,
        values,
        dtype=values.dtype,
        layout=torch.sparse_coo,
        device=values.device,
        is_coalesced=is_coalesced,
    )


def _clone(op: Operation, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Autograd keeps a sparse gradient as it is; it copies those of subclasses only."""
    tensor = args[0]
    indices, values = tensor._indices(), tensor._values()
    if torch._C._current_autograd_node() is None or torch.is_grad_enabled():
        indices, values = aten.clone.default(indices), aten.clone.default(values)
    return _sparse(tensor.shape, indices, values, tensor.is_coalesced())


def _embedding_bag_backward(op: Operation, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The row of its bag for each index, without padding (ATen/native/EmbeddingBag.cpp)."""
    grad, indices, _, bags, bag_sizes, _, rows, _, mode = args[:9]
    if bags.numel() != indices.numel():
        values = grad.new_empty((indices.numel(), grad.shape[1]))
    else:
        values = aten.index_select.default(grad, 0, bags)
        if mode == _MEAN:
            shares = bag_sizes.to(grad.dtype).reciprocal().unsqueeze(1)
            values *= aten.index_select.default(shares, 0, bags)
    padding = args[_PADDING_ARGUMENT] if len(args) > _PADDING_ARGUMENT else -1
    if padding != -1:
        is_used = indices != padding
        indices, values = indices[is_used], values[is_used]
    return _sparse((rows, grad.shape[1]), indices.view(1, -1), values)


def _coalesce(op: Operation, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Indices are sorted as one number each; each different one is kept once."""
    tensor = args[0]
    indices, values = tensor._indices(), tensor._values()
    dims, count = indices.shape
    row = {"dtype": torch.int64, "device": indices.device}
    numbers, order, places = [torch.empty(count, **row) for _ in range(3)]
    for size in (_bytes_to_sort(count), _bytes_to_find_different(count)):
        torch.empty(size, dtype=torch.uint8, device=indices.device)
    is_different = _DIFFERENT in getattr(tensor, "__dict__", ())
    kept = count if is_different else _number_of_different(indices, tensor.shape)
    summed = values.new_empty((kept, *values.shape[1:]))
    found = numbers[:kept].view(1, -1) if dims == 1 else torch.empty((dims, kept), **row)
    del numbers, order, places
    return _sparse(tensor.shape, found, summed, is_coalesced=True)


def _bytes_to_sort(count: int) -> int:
    """A second copy of the indices and of their order, and where parts to be merged begin."""
    parts = 8 * (divide_up(count, _SORTED_TOGETHER) + 1)
    return 2 * round_up(8 * count, 256) + round_up(parts, 256) + 255


def _bytes_to_find_different(count: int) -> int:
    return 1535 + 256 * (count >> 17)  # as recorded for 8,192 to 245,760 elements


def _sparse_mask(op: Operation, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The elements of a dense tensor where the mask has elements."""
    tensor, mask = args[:2]
    values = mask._values()
    gathered = torch.empty(values.shape, dtype=tensor.dtype, device=tensor.device)
    indices = aten.clone.default(mask._indices())
    result = _sparse(tensor.shape, indices, torch.empty_like(gathered), mask.is_coalesced())
    del gathered
    return result


def _add_to_dense(op: Operation, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    if args[0].layout is not torch.strided:
        return NotImplemented
    indices = args[1]._indices()
    if indices.shape[0] > 1 and not args[1].is_coalesced():
        torch.empty(indices.shape[1], dtype=torch.int64, device=indices.device)  # as one number
    return args[0]


def _add(op: Operation, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The elements of both, one after the other: autograd adds gradients of a table so."""
    left, right = args[:2]
    if not _is_sparse(right):
        return NotImplemented
    if not _is_sparse(left):
        return aten.add_.Tensor(aten.clone.default(left), right, **kwargs)
    for one, other in ((left, right), (right, left)):
        if not one._nnz():
            copies = [aten.clone.default(each) for each in (other._indices(), other._values())]
            return _sparse(left.shape, copies[0], copies[1], other.is_coalesced())
    dtype = torch.result_type(left._values(), right._values())
    values = [each._values().to(dtype) for each in (left, right)]
    if kwargs.get("alpha", 1) != 1:
        values[1] = values[1] * kwargs["alpha"]
    indices = aten.cat.default([left._indices(), right._indices()], 1)
    total = _sparse(left.shape, indices, aten.cat.default(values))
    if total._nnz() > total.numel():
        return _coalesce(op, (total,), {})
    return total


def _transpose(op: Operation, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """A copy whose indices are exchanged by way of one row, and no longer in order."""
    tensor = args[0]
    indices, values = tensor._indices(), tensor._values()
    if indices.shape[0] != tensor.dim() or tensor.dim() < 2:
        return NotImplemented
    shape = list(tensor.shape)
    one, other = args[1:3] if len(args) > 2 else (0, 1)
    shape[one], shape[other] = shape[other], shape[one]
    indices, values = aten.clone.default(indices), aten.clone.default(values)
    torch.empty(indices.shape[1], dtype=indices.dtype, device=indices.device)
    transposed = _sparse(shape, indices, values)
    if tensor.is_coalesced():
        transposed.__dict__[_DIFFERENT] = True
    return transposed


def _product(op: Operation, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Elements in order are needed; the rules know the rest."""
    place = 1 if op.name in _SPARSE_SECOND else 0
    matrix = args[place]
    if matrix.is_coalesced():
        return NotImplemented
    in_order = _coalesce(op, (matrix,), {})
    return op.func(*args[:place], in_order, *args[place + 1 :], **kwargs)


def _number_of_different(indices: torch.Tensor, shape: Sequence[int]) -> int:
    known = known_value(indices)
    dims, count = indices.shape
    rooms = math.prod(int(size) for size in shape[:dims])
    if known is None:
        different = rooms * (1 - (1 - 1 / max(2, rooms)) ** count)  # if they are random
        return int(different + 0.5)
    with outside_modes():
        return int(torch.unique(known, dim=1).shape[1])


SPARSE_FUNCTIONS: dict[str, Callable[[Operation, Sequence[Any], dict[str, Any]], Any]] = {
    "clone": _clone,
    "_coalesce": _coalesce,
    "sparse_mask": _sparse_mask,
    "add": _add,
    "add_": _add_to_dense,
    "_embedding_bag_backward": _embedding_bag_backward,
    "t": _transpose,
    "transpose": _transpose,
    "mm": _product,
    "addmm": _product,
    "_sparse_addmm": _product,
}
