"""Embeddings: the gradient of a large batch is sorted by word first."""

from __future__ import annotations

from typing import Any

from gpumemprof.estimate.engine.device import Device
from gpumemprof.estimate.rules.copies import copies_inputs
from gpumemprof.estimate.rules.table import Call, rule
from gpumemprof.estimate.rules.tensors import is_on_card

__all__: list[str] = []

LARGEST_UNSORTED = 3072
INDICES_PER_PARTIAL_SUM = 10
INDEX_BYTES = 8


@rule("embedding_dense_backward", certainty="exact", hook="births")
def embedding_backward(device: Device, call: Call, outputs: Any) -> None:
    grad, indices, words = call.args[:3]
    count = indices.numel()
    name = call.name
    if not is_on_card(outputs) or count <= LARGEST_UNSORTED:
        device.births(outputs, name)
        return
    row = INDEX_BYTES * count

    def allocate(size: int) -> int:
        return device.allocate(size, name)

    sorted_indices, original_rows, rows = allocate(row), allocate(row), allocate(row)
    device.temporary(2 * row + 17919, name)  # radix sort
    device.free(rows)
    device.births(outputs, name)
    segment_starts, segment_count = allocate(row), allocate(INDEX_BYTES)
    counter = allocate(row)
    device.temporary(1279, name)  # unique by key
    device.free(counter)
    partials, partial_offsets = allocate(row), allocate(row)
    device.temporary(1279, name)  # sum of the partials per segment
    partial_count = allocate(INDEX_BYTES)
    sums = count // INDICES_PER_PARTIAL_SUM + min(count, words)
    sum_offsets = allocate(INDEX_BYTES * sums)
    partial_sums = allocate(sums * grad.size(-1) * 4)
    for address in (
        partial_sums,
        sum_offsets,
        partial_count,
        partial_offsets,
        partials,
        segment_count,
        segment_starts,
        original_rows,
        sorted_indices,
    ):
        device.free(address)


copies_inputs("embedding", "embedding_dense_backward", inputs=(1,))
