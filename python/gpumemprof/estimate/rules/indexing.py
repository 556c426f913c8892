"""Writing to and moving elements by index."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from gpumemprof.estimate.engine.device import Device
from gpumemprof.estimate.rules.cub import radix_sort_bytes, row_scan_bytes
from gpumemprof.estimate.rules.table import Call, rule
from gpumemprof.estimate.rules.tensors import bytes_of, is_on_card

__all__: list[str] = []

aten = torch.ops.aten
INDEX_BYTES = 8


def _is_in_backward() -> bool:
    return torch._C._current_autograd_node() is not None and not torch.is_grad_enabled()


def _sums_by_index(device: Device, call: Call, indices: Sequence[Any], is_checked: bool) -> None:
    """Rows that are added are sorted by their place, so that the sum does not depend on chance."""
    target = call.args[0]
    used = [index for index in indices if index is not None and index.dtype != torch.bool]
    if not is_on_card(target) or not used:
        return
    count = math.prod(torch.broadcast_shapes(*(index.shape for index in used)))
    row = INDEX_BYTES * count
    places = 0
    copies = _wide_copies(device, call, indices)
    for number, index in enumerate(used):
        if is_checked:
            for _ in range(2):  # the smallest and the largest
                device.held(call.name, index.element_size(), 1)
        wrapped = device.allocate(row, call.name)
        scaled = device.allocate(row, call.name)
        device.free(wrapped)
        if number == 0:
            places = scaled
        else:
            device.free(scaled)
    for address in reversed(copies):
        device.free(address)
    rows = 1
    for size, index in zip(target.shape, indices):
        rows *= size if index is not None else 1
    values = call.args[2]
    copy = 0
    if is_on_card(values):
        size = count * target.numel() // rows
        if values.numel() < size or not values.is_contiguous():
            copy = device.allocate(size * values.element_size(), call.name)
    bits = max(1, (rows - 1).bit_length())
    size = radix_sort_bytes(count, INDEX_BYTES, INDEX_BYTES, bits)
    device.held(call.name, row, row, row, size)
    device.free(copy)
    device.free(places)


@rule("index_put", "scatter", "scatter_add", "index_add", certainty="exact", hook="instead")
def added_in_place(device: Device, call: Call) -> Any:
    """Gradients of indexing are written into zeros; autograd copies these for subclasses only."""
    if _is_in_backward() and is_on_card(call.args[0]):
        return aten.detach.default(call.args[0])
    return call.func(*call.args, **call.kwargs)


@rule("index_put", certainty="exact")
def index_put(device: Device, call: Call, outputs: Any) -> None:
    _written_by_index(device, call, is_checked=not _is_in_backward())


@rule("index_put_", "_index_put_impl_", certainty="exact")
def index_put_in_place(device: Device, call: Call, outputs: Any) -> None:
    _written_by_index(device, call, is_checked=not call.argument("unsafe", False))


def _written_by_index(device: Device, call: Call, is_checked: bool) -> None:
    """Conditions were replaced by places, which are there for as long as the kernel runs."""
    indices = call.args[0].__dict__.pop("_places", call.args[1])
    if call.argument("accumulate", False):
        _sums_by_index(device, call, indices, is_checked)
    elif is_on_card(call.args[0]):
        for address in reversed(_wide_copies(device, call, indices)):
            device.free(address)


def _wide_copies(device: Device, call: Call, indices: Sequence[Any]) -> list[int]:
    """Indices of 32 bits are copied to 64 bits."""
    used = [index for index in indices if index is not None]
    if all(index.dtype != torch.int32 for index in used):
        return []
    count = math.prod(torch.broadcast_shapes(*(index.shape for index in used)))
    narrow = [index for index in used if index.dtype == torch.int32]
    return [device.allocate(INDEX_BYTES * count, call.name) for _ in narrow]


@rule("index", certainty="exact", hook="births")
def index(device: Device, call: Call, outputs: Any) -> None:
    copies = _wide_copies(device, call, call.args[1]) if is_on_card(call.args[0]) else []
    device.births(outputs, call.name)
    for address in reversed(copies):
        device.free(address)


@rule("roll", certainty="exact", hook="births")
def roll(device: Device, call: Call, outputs: Any) -> None:
    """Several dimensions are rolled one after the other."""
    tensor, shifts = call.args[:2]
    size = bytes_of(tensor)
    steps = len(shifts) if isinstance(shifts, (list, tuple)) else 1
    if not is_on_card(tensor) or steps < 2:
        device.births(outputs, call.name)
        return
    last = 0
    if not tensor.is_contiguous():
        last = device.allocate(size, call.name)
    for _ in range(steps - 1):
        rolled = device.allocate(size, call.name)
        device.free(last)
        last = rolled
    device.births(outputs, call.name)
    device.free(last)


@rule("masked_scatter", certainty="exact")
def masked_scatter(device: Device, call: Call, outputs: Any) -> None:
    """The mask is added up to find the place of each element in the source."""
    source = call.args[2]
    if not is_on_card(outputs):
        return
    count = outputs.numel()
    places = device.allocate(INDEX_BYTES * count, call.name)
    device.temporary(row_scan_bytes(count, INDEX_BYTES), call.name)
    if not source.is_contiguous():
        device.temporary(bytes_of(source), f"{call.name}: contiguous copy")
    device.free(places)
