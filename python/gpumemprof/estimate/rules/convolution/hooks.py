"""Convolutions: copies into the layout of the kernel, and cuDNN's workspaces.

cuDNN chooses its algorithm by its own heuristics; `workspace` says what is known about them.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import torch

from gpumemprof.estimate.engine.device import Device
from gpumemprof.estimate.rules.convolution.cudnn import current_settings
from gpumemprof.estimate.rules.convolution.shape import Convolution, Kind
from gpumemprof.estimate.rules.convolution.workspace import (
    Workspace,
    is_native_depthwise,
    trial_bytes,
    workspace,
)
from gpumemprof.estimate.rules.copies import free_copies, take_copies
from gpumemprof.estimate.rules.reductions.hooks import accumulator_bytes, take_reduction_memory
from gpumemprof.estimate.rules.table import Call, rule
from gpumemprof.estimate.rules.tensors import (
    bytes_of,
    is_channels_last,
    is_half,
    is_on_card,
    is_packed,
)

__all__: list[str] = []


_CHANNELS_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}


def needs_weight_copy(convolution: Convolution, weight: torch.Tensor) -> bool:
    """An input with its channels last, and a weight that has not."""
    layout = _CHANNELS_LAST.get(weight.dim())
    return (
        convolution.is_channels_last
        and layout is not None
        and not weight.is_contiguous(memory_format=layout)
    )


# The convolutions whose fastest algorithm a device has searched for.
_searched: WeakKeyDictionary[Device, set[tuple[Convolution, Kind]]] = WeakKeyDictionary()


def _search(device: Device, call: Call, kind: Kind, convolution: Convolution) -> None:
    """cudnn.benchmark tries algorithms at the first call; some need many times the memory.

    Torch then gives all cached blocks back, so that this memory does not stay reserved.
    """
    done = _searched.setdefault(device, set())
    if (convolution, kind) in done:
        return
    done.add((convolution, kind))
    size, is_measured = trial_bytes(convolution, kind)
    device.note(
        "workspace",
        "cudnn.benchmark tries algorithms, whose workspaces are "
        + ("those of an NVIDIA H200" if is_measured else "a guess"),
    )
    while size:
        try:
            device.temporary(size, f"{call.name}: cudnn.benchmark")
            break
        except torch.OutOfMemoryError:  # So does torch.
            size //= 2
    device.memory.empty_cache()


def _take_workspace(
    device: Device, call: Call, kind: Kind, convolution: Convolution, weight: torch.Tensor
) -> None:
    copy = 0
    if kind != "weight" and needs_weight_copy(convolution, weight):
        copy = device.allocate(bytes_of(weight), f"{call.name}: copy of the weight")
    if torch.backends.cudnn.benchmark:
        _search(device, call, kind, convolution)
    settings = current_settings(convolution.dtype)
    found = workspace(convolution, kind, device.card, settings)
    _note(device, kind, found)
    certainty, device.certainty = device.certainty, found.certainty
    if found.may_be_bytes > found.size_bytes:
        device.may_need(found.may_be_bytes)
    device.temporary(found.size_bytes, f"{call.name}: cuDNN workspace")
    device.certainty = certainty
    device.free(copy)


def _note(device: Device, kind: Kind, found: Workspace) -> None:
    if found.measured_on:
        text = f"cuDNN's workspaces were measured on {found.measured_on}, another architecture"
        device.note("workspace", text)
    elif found.certainty == "guess":
        device.note("workspace", f"cuDNN's workspace of a convolution ({kind}) is a guess")


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
        """The gradient in the layout of the input, which is read for the weight's gradient."""
        grad, tensor, weight = call.args[:3]
        if not is_on_card(grad):
            return
        has_channels_last = is_channels_last(tensor) or is_channels_last(weight)
        layout = _CHANNELS_LAST[tensor.dim()] if has_channels_last else torch.contiguous_format

        def accepts(each: torch.Tensor) -> bool:
            return bool(each.is_contiguous(memory_format=layout))

        take_copies(device, call, (tensor, grad) if call.args[10][1] else (grad,), accepts)

    @staticmethod
    def births(device: Device, call: Call, outputs: Any) -> None:
        grad, tensor, weight = call.args[:3]
        if not is_on_card(grad):
            device.births(outputs, call.name)
            return
        convolution = Convolution.of(tensor, weight, grad, *call.args[4:10])
        wanted = call.args[10]
        order: tuple[tuple[int, Kind], ...] = ((0, "data"), (1, "weight"))
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
