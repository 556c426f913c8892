"""Convolutions: copies into the layout of the kernel, and cuDNN's workspaces.

cuDNN chooses its algorithm by its own heuristics. Workspaces are looked up in a table that was
measured on a card; for shapes that it does not hold, a fitted rule gives an estimate.
"""

from __future__ import annotations

from typing import Any

from gpumemprof.estimate.engine.device import Device
from gpumemprof.estimate.rules.convolution_workspace import Convolution, workspace_bytes
from gpumemprof.estimate.rules.copies import free_copies, take_copies
from gpumemprof.estimate.rules.reductions import take_reduction_memory
from gpumemprof.estimate.rules.table import Call, rule
from gpumemprof.estimate.rules.tensors import is_half, is_on_card, is_packed

__all__: list[str] = []


def _take_workspace(device: Device, call: Call, kind: str, convolution: Convolution) -> None:
    size, is_measured = workspace_bytes(convolution, kind, device.card.capability)
    if not is_measured:
        device.note("workspace", f"cuDNN's workspace of a convolution ({kind}) is fitted")
    device.temporary(size, f"{call.name}: cuDNN workspace")


@rule("convolution", certainty="fitted")
class Forward:
    @staticmethod
    def before(device: Device, call: Call) -> None:
        take_copies(device, call, call.args[:1], is_packed)

    @staticmethod
    def after(device: Device, call: Call, outputs: Any) -> None:
        if is_on_card(outputs):
            tensor, weight = call.args[:2]
            convolution = Convolution.of(tensor, weight, outputs, *call.args[3:9])
            _take_workspace(device, call, "forward", convolution)
        free_copies(device, call)


@rule("convolution_backward", certainty="fitted")
class Backward:
    @staticmethod
    def before(device: Device, call: Call) -> None:
        take_copies(device, call, call.args[:2], is_packed)

    @staticmethod
    def births(device: Device, call: Call, outputs: Any) -> None:
        grad, tensor, weight = call.args[:3]
        if not is_on_card(grad):
            device.births(outputs, call.name)
            return
        convolution = Convolution.of(tensor, weight, grad, *call.args[4:10])
        wanted = call.args[10]
        for index, kind in ((0, "data"), (1, "weight")):
            if wanted[index]:
                device.births(outputs[index], call.name)
                _take_workspace(device, call, kind, convolution)
        if wanted[2]:
            device.births(outputs[2], call.name)
            dimensions = [0, *range(2, grad.dim())]
            take_reduction_memory(device, grad, dimensions, 4, 8 if is_half(grad) else 4)

    @staticmethod
    def after(device: Device, call: Call, outputs: Any) -> None:
        free_copies(device, call)
