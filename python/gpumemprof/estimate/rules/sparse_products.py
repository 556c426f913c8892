"""Products of a sparse and a dense matrix, by cuSPARSE."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from gpumemprof.estimate.engine.device import Device
from gpumemprof.estimate.rules.table import Call, rule
from gpumemprof.estimate.rules.tensors import bytes_of, is_on_card

__all__: list[str] = []

NARROW_INDEX_BYTES = 4


@rule("mm", "mv", certainty="exact")
def product(device: Device, call: Call, outputs: Any) -> None:
    _multiply(device, call, call.args[:2], outputs)


@rule("addmm", "_sparse_addmm", certainty="exact")
def product_and_sum(device: Device, call: Call, outputs: Any) -> None:
    _multiply(device, call, call.args[1:3], outputs)


def _multiply(device: Device, call: Call, factors: Sequence[Any], result: Any) -> None:
    """Indices as one row of 32 bits each, and the result by columns (SparseCUDATensorMath.cu)."""
    sparse, dense = factors
    if sparse.layout is torch.strided and dense.layout is torch.strided:
        return
    if sparse.layout is not torch.sparse_coo or dense.layout is not torch.strided:
        # Compressed rows and products of two sparse matrices: nothing was measured.
        device.on_unknown(result, f"{call.name} of sparse matrices")
        return
    if not is_on_card(result):
        return
    count = sparse._indices().shape[1]
    # Shapes and sizes are those of torch's sources; what cuSPARSE takes for itself is not known.
    row_starts = device.allocate(NARROW_INDEX_BYTES * (sparse.shape[0] + 1), call.name)
    device.temporary(NARROW_INDEX_BYTES * count, call.name)
    columns = device.allocate(NARROW_INDEX_BYTES * count, call.name)
    held = [row_starts, columns, device.allocate(bytes_of(result), f"{call.name}: by columns")]
    if not _is_readable(dense):
        held.append(device.allocate(bytes_of(dense), f"{call.name}: contiguous copy"))
    device.may_need(bytes_of(result))
    for address in reversed(held):
        device.free(address)


def _is_readable(dense: torch.Tensor) -> bool:
    return dense.dim() < 2 or 1 in dense.stride()[-2:]
