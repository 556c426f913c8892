"""Embeddings: the gradient of a large batch is sorted by word first."""

from __future__ import annotations

from typing import Any

import torch

from gpumemprof.estimate.engine.device import Device
from gpumemprof.estimate.rules.births import born_in_order
from gpumemprof.estimate.rules.copies import copies_inputs
from gpumemprof.estimate.rules.cub import (
    SCAN_BY_KEY_TILE,
    SELECT_TILE,
    radix_sort_bytes,
    scan_bytes,
)
from gpumemprof.estimate.rules.table import Call, rule
from gpumemprof.estimate.rules.tensors import is_half, is_on_card

__all__: list[str] = []

LARGEST_UNSORTED = 3072
INDICES_PER_PARTIAL_SUM = 10
SUM, MEAN = 0, 1  # torch's numbers of the modes
FEW_WORDS = 16  # with this many times fewer words than indices, sums are added without partial sums


@rule("embedding_dense_backward", certainty="fitted", hook="births")
def embedding_backward(device: Device, call: Call, outputs: Any) -> None:
    grad, indices, words = call.args[:3]
    is_scaled = call.argument("scale_grad_by_freq", False)
    is_sorted = indices.numel() > LARGEST_UNSORTED or is_scaled
    if is_on_card(outputs) and is_sorted:
        has_few_words = words * FEW_WORDS <= indices.numel()
        sum_by_word(device, call, outputs, (grad, indices, words), is_scaled, has_few_words)
    else:
        device.births(outputs, call.name)


@rule("_embedding_bag_backward", certainty="fitted", hook="births")
def bag_backward(device: Device, call: Call, outputs: Any) -> None:
    """Sums and means are added like embeddings; the largest are written directly."""
    grad, indices, words = call.args[0], call.args[1], call.args[6]
    if is_on_card(outputs) and call.args[8] in (SUM, MEAN):
        sum_by_word(device, call, outputs, (grad, indices, words), call.args[7])
    else:
        device.births(outputs, call.name)


def sum_by_word(
    device: Device,
    call: Call,
    outputs: Any,
    inputs: tuple[Any, Any, int],
    is_scaled: bool,
    has_few_words: bool = False,
) -> None:
    """The indices are sorted, cut into segments of one word each, and the rows added."""
    grad, indices, words = inputs
    count = indices.numel()
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
        for _ in range(2):
            device.temporary(scan_bytes(count, SCAN_BY_KEY_TILE), call.name)
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
    if has_few_words:
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
copies_inputs("embedding_dense_backward", inputs=(0, 1))
born_in_order("_embedding_bag", order=(2, 1, 0))
