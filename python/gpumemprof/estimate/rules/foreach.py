"""Operations on lists of tensors."""

from __future__ import annotations

from typing import Any

import torch

from gpumemprof.estimate.engine.device import Device
from gpumemprof.estimate.rules.table import Call, rule
from gpumemprof.estimate.rules.tensors import divide_up, is_on_card

__all__: list[str] = []

CHUNK_ELEMENTS = 65536


@rule("_foreach_norm", "_foreach_max", certainty="exact", hook="births")
def reduced_lists(device: Device, call: Call, outputs: Any) -> None:
    """Each chunk of each tensor has a partial result; all tensors get as many as the longest."""
    tensors = call.args[0]
    if not tensors or not is_on_card(tensors[0]):
        device.births(outputs, call.name)
        return
    chunks = max(divide_up(tensor.numel(), CHUNK_ELEMENTS) for tensor in tensors)
    size = 8 if tensors[0].dtype == torch.float64 else 4
    if call.name == "_foreach_max":
        size = tensors[0].element_size()
    partial = device.allocate(len(tensors) * chunks * size, call.name)
    device.births(outputs, call.name)
    device.free(partial)
