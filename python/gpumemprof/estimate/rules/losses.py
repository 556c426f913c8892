"""Loss functions."""

from __future__ import annotations

from typing import Any

import torch

from gpumemprof.estimate.engine.device import Device
from gpumemprof.estimate.rules.reductions import take_reduction_memory
from gpumemprof.estimate.rules.table import Call, rule
from gpumemprof.estimate.rules.tensors import bytes_of, is_half, is_on_card

__all__: list[str] = []

NO_REDUCTION = 0


@rule("mse_loss", "smooth_l1_loss", "huber_loss", certainty="exact", hook="births")
def pointwise_loss(device: Device, call: Call, outputs: Any) -> None:
    """The returned scalar lives in a storage of full size; a second one is reduced into it."""
    if call.argument("reduction") == NO_REDUCTION or not is_on_card(outputs):
        device.births(outputs, call.name)
        return
    tensor: torch.Tensor = call.args[0]
    device.birth_sized(outputs, bytes_of(tensor), call.name)
    losses = device.allocate(bytes_of(tensor), call.name)
    take_reduction_memory(device, tensor, None, 4, 8 if is_half(tensor) else 4)
    device.free(losses)
