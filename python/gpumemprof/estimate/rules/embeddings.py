"""Embeddings: the gradient of a large batch is sorted by word first."""

from __future__ import annotations

from typing import Any

import torch

from gpumemprof.estimate.engine.device import Device
from gpumemprof.estimate.rules.copies import copies_inputs
from gpumemprof.estimate.rules.cub import SELECT_TILE, radix_sort_bytes, scan_bytes
from gpumemprof.estimate.rules.table import Call, rule
from gpumemprof.estimate.rules.tensors import is_half, is_on_card

__all__: list[str] = []

LARGEST_UNSORTED = 3072
INDICES_PER_PARTIAL_SUM = 10
FEW_WORDS = 16  # so many times fewer words than indices: sums are added without partial sums


@rule("embedding_dense_backward", certainty="fitted", hook="births")
def embedding_backward(device: Device, call: Call, outputs: Any) -> None:
    """The indices are sorted, cut into segments of one word each, and the rows added."""
    grad, indices, words = call.args[:3]
    count = indices.numel()
    is_scaled = call.argument("scale_grad_by_freq", False)
    if not is_on_card(outputs) or (count <= LARGEST_UNSORTED and not is_scaled):
        device.births(outputs, call.name)
        return
    index_bytes = indices.element_size()
    row = index_bytes * count

    def allocate(size: int) -> int:
        return device.allocate(size, call.name)

    held = [allocate(row), allocate(row)]  # sorted indices, and their rows
    rows = allocate(row)
    device.temporary(radix_sort_bytes(count, index_bytes, index_bytes), call.name)
    device.free(rows)
    if is_scaled:
        held.append(allocate(row))  # how often each word occurs
        device.temporary(scan_bytes(count), call.name)
        device.temporary(scan_bytes(count), call.name)
    device.births(outputs, call.name)
    held += [allocate(row), allocate(index_bytes)]  # starts of the segments, and their number
    counter = allocate(row)
    device.temporary(scan_bytes(count, SELECT_TILE), call.name)
    device.free(counter)
    segments = min(count, words)
    held += [allocate(index_bytes * segments), allocate(index_bytes * segments)]
    device.temporary(scan_bytes(segments), call.name)
    held.append(allocate(index_bytes))
    partial_sums = count // INDICES_PER_PARTIAL_SUM + segments
    held.append(allocate(index_bytes * partial_sums))
    if words * FEW_WORDS <= count:
        held.append(allocate(index_bytes * partial_sums))
        if is_half(outputs):
            held.append(allocate(words * grad.size(-1) * 4))
    else:
        held.append(allocate(partial_sums * grad.size(-1) * 4))
    for address in reversed(held):
        device.free(address)


def is_flat(indices: torch.Tensor) -> bool:
    """Whether the indices can be read as one row without a copy."""
    return bool(indices.dim() <= 1 or indices.is_contiguous())


copies_inputs("embedding", inputs=(1,), accepts=is_flat)
copies_inputs("embedding_dense_backward", inputs=(1,))
