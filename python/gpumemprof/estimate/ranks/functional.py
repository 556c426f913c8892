"""Collectives that return new tensors, as DTensor and compiled programs use them.

Each function returns the results and the group. The allocations are those of torch's own code.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable

import torch

from gpumemprof.estimate.ranks import plausible

__all__ = ["FUNCTIONS"]


def _group(name: str) -> Any:
    return torch._C._distributed_c10d._resolve_process_group(name)


def _all_reduce(tensor: torch.Tensor, reduce_op: str, group_name: str) -> Any:
    return _all_reduce_in_place(
        tensor.clone(memory_format=torch.contiguous_format), reduce_op, group_name
    )


def _all_reduce_in_place(tensor: torch.Tensor, reduce_op: str, group_name: str) -> Any:
    group = _group(group_name)
    plausible.reduce(tensor, reduce_op.lower(), group.size())
    return tensor, group


def _all_reduce_coalesced(tensors: Sequence[torch.Tensor], reduce_op: str, group_name: str) -> Any:
    copies = [each.clone(memory_format=torch.contiguous_format) for each in tensors]
    return _all_reduce_coalesced_in_place(copies, reduce_op, group_name)


def _all_reduce_coalesced_in_place(
    tensors: Sequence[torch.Tensor], reduce_op: str, group_name: str
) -> Any:
    for each in tensors:
        _all_reduce_in_place(each, reduce_op, group_name)
    return list(tensors), _group(group_name)


def _all_gather(tensor: torch.Tensor, group_size: int, group_name: str, *, out: Any = None) -> Any:
    shape = list(tensor.shape) or [1]
    shape[0] *= group_size
    if out is None:
        out = torch.empty(shape, dtype=tensor.dtype, device=tensor.device)
    plausible.repeat(out, tensor, group_size)
    return out, _group(group_name)


def _all_gather_coalesced(tensors: Sequence[torch.Tensor], group_size: int, group_name: str) -> Any:
    outputs = [_all_gather(each, group_size, group_name)[0] for each in tensors]
    return outputs, _group(group_name)


def _reduce_scatter(
    tensor: torch.Tensor, reduce_op: str, group_size: int, group_name: str, *, out: Any = None
) -> Any:
    group = _group(group_name)
    shape = list(tensor.shape)
    shape[0] //= group_size
    if out is None:
        out = torch.empty(shape, dtype=tensor.dtype, device=tensor.device)
    plausible.take_part(out, tensor, group.rank())
    plausible.reduce(out, reduce_op.lower(), group_size)
    return out, group


def _reduce_scatter_coalesced(
    tensors: Sequence[torch.Tensor], reduce_op: str, group_size: int, group_name: str
) -> Any:
    outputs = [_reduce_scatter(each, reduce_op, group_size, group_name)[0] for each in tensors]
    return outputs, _group(group_name)


def _all_to_all(
    tensor: torch.Tensor,
    output_split_sizes: Sequence[int],
    input_split_sizes: Sequence[int],
    group_name: str,
) -> Any:
    group = _group(group_name)
    shape = list(tensor.shape)
    if output_split_sizes:
        shape[0] = sum(int(each) for each in output_split_sizes)
    output = tensor.new_empty(shape)
    plausible.exchange(output, tensor, group.rank(), group.size())
    return output, group


def _broadcast(tensor: torch.Tensor, src: int, group_name: str) -> Any:
    return tensor.clone(memory_format=torch.contiguous_format), _group(group_name)


def _broadcast_in_place(tensor: torch.Tensor, src: int, group_name: str) -> Any:
    return tensor, _group(group_name)


def _wait(tensor: torch.Tensor) -> Any:
    """The same tensor, although torch's shape function makes a new one."""
    return tensor, None


def _shard_dim_all_to_all(
    tensor: torch.Tensor, gather_dim: int, shard_dim: int, group_name: str
) -> Any:
    group = _group(group_name)
    length = tensor.shape[shard_dim] // group.size()
    starts = [rank * length for rank in range(group.size())]
    inputs = [tensor.narrow(shard_dim, start, length).contiguous() for start in starts]
    outputs = [torch.empty_like(each) for each in inputs]
    result = torch.cat(outputs, gather_dim)
    return result, group


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "_c10d_functional::all_reduce": _all_reduce,
    "_c10d_functional::all_reduce_": _all_reduce_in_place,
    "_c10d_functional::all_reduce_coalesced": _all_reduce_coalesced,
    "_c10d_functional::all_reduce_coalesced_": _all_reduce_coalesced_in_place,
    "_c10d_functional::all_gather_into_tensor": _all_gather,
    "_c10d_functional::all_gather_into_tensor_out": _all_gather,
    "_c10d_functional::all_gather_into_tensor_coalesced": _all_gather_coalesced,
    "_c10d_functional::reduce_scatter_tensor": _reduce_scatter,
    "_c10d_functional::reduce_scatter_tensor_out": _reduce_scatter,
    "_c10d_functional::reduce_scatter_tensor_coalesced": _reduce_scatter_coalesced,
    "_c10d_functional::all_to_all_single": _all_to_all,
    "_c10d_functional::broadcast": _broadcast,
    "_c10d_functional::broadcast_": _broadcast_in_place,
    "_c10d_functional::wait_tensor": _wait,
    "_dtensor::shard_dim_alltoall": _shard_dim_all_to_all,
}
