"""Convolutions: copies into the layout of the kernel, and cuDNN's workspaces.

cuDNN chooses its algorithm by its own heuristics. Workspaces are looked up in a table that was
measured on a card; for shapes that it does not hold, a fitted rule gives an estimate.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import torch

from gpumemprof.estimate.engine.device import Device
from gpumemprof.estimate.rules.convolution.workspace import Convolution, workspace_bytes
from gpumemprof.estimate.rules.copies import free_copies, take_copies
from gpumemprof.estimate.rules.reductions.hooks import accumulator_bytes, take_reduction_memory
from gpumemprof.estimate.rules.table import Call, rule
from gpumemprof.estimate.rules.tensors import bytes_of, is_half, is_on_card, is_packed

__all__: list[str] = []

MEASURED_CAPABILITY = (9, 0)


def needs_weight_copy(convolution: Convolution, weight: torch.Tensor) -> bool:
    """An input with its channels last, and a weight that has not."""
    layout = {4: torch.channels_last, 5: torch.channels_last_3d}.get(weight.dim())
    return (
        convolution.is_channels_last
        and layout is not None
        and not weight.is_contiguous(memory_format=layout)
    )


# The convolutions whose fastest algorithm a device has searched for.
_searched: WeakKeyDictionary[Device, set[tuple[Convolution, str]]] = WeakKeyDictionary()


def _search(device: Device, call: Call, kind: str, convolution: Convolution) -> None:
    """cudnn.benchmark tries algorithms at the first call; some need many times the memory."""
    done = _searched.setdefault(device, set())
    if (convolution, kind) in done:
        return
    done.add((convolution, kind))
    size, is_measured = workspace_bytes(convolution, kind, "trials")
    device.note(
        "workspace",
        "cudnn.benchmark tries algorithms, whose workspaces are "
        + ("those of an NVIDIA H200" if is_measured else "a guess"),
    )
    while size:
        try:
            device.temporary(size, f"{call.name}: cudnn.benchmark")
            return
        except torch.OutOfMemoryError:  # noqa: PERF203 - so does torch
            size //= 2


def _take_workspace(
    device: Device, call: Call, kind: str, convolution: Convolution, weight: torch.Tensor
) -> None:
    copy = 0
    if kind != "weight" and needs_weight_copy(convolution, weight):
        copy = device.allocate(bytes_of(weight), f"{call.name}: copy of the weight")
    if torch.backends.cudnn.benchmark:
        _search(device, call, kind, convolution)
    size, is_measured = workspace_bytes(convolution, kind)
    if not is_measured:
        device.note("workspace", f"cuDNN's workspace of a convolution ({kind}) is fitted")
    if device.card.capability != MEASURED_CAPABILITY:
        device.note("workspace", "cuDNN's workspaces were measured on an NVIDIA H200")
    device.temporary(size, f"{call.name}: cuDNN workspace")
    device.free(copy)


def is_native_depthwise(convolution: Convolution) -> bool:
    """Whether torch's own kernels compute it; they take no workspace."""
    is_depthwise = convolution.groups > 1 and convolution.groups == convolution.channels
    has_workspace = any(workspace_bytes(convolution, kind)[0] for kind in ("forward", "weight"))
    return is_depthwise and not convolution.is_channels_last and not has_workspace


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
            _take_workspace(device, call, "forward", convolution, weight)
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
        order = ((0, "data"), (1, "weight"))
        if is_native_depthwise(convolution):
            order = (order[1], order[0])
        for index, kind in order:
            if wanted[index]:
                device.births(outputs[index], call.name)
                _take_workspace(device, call, kind, convolution, weight)
        if wanted[2]:
            device.births(outputs[2], call.name)
            dimensions = [0, *range(2, grad.dim())]
            width = 8 if is_half(grad) else 4
            take_reduction_memory(device, grad, dimensions, accumulator_bytes(grad), width)

    @staticmethod
    def after(device: Device, call: Call, outputs: Any) -> None:
        free_copies(device, call)
