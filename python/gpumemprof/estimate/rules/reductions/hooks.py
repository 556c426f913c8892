"""Reductions: the buffers in which several blocks of threads combine their partial results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from gpumemprof.estimate.engine.device import Device
from gpumemprof.estimate.rules.reductions.launch import reduction_memory
from gpumemprof.estimate.rules.table import Call, rule
from gpumemprof.estimate.rules.tensors import is_half, is_on_card

__all__ = ["accumulator_bytes", "take_reduction_memory"]

WIDE_TYPES = (torch.float64, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


def accumulator_bytes(tensor: torch.Tensor, dtype: torch.dtype | None = None) -> int:
    """Size of a partial sum: 8 bytes for double and integers, which are added as int64."""
    kept = dtype or tensor.dtype
    return 8 if kept in WIDE_TYPES or kept == torch.bool else 4


def take_reduction_memory(
    device: Device,
    tensor: torch.Tensor,
    dimensions: Sequence[int] | None,
    accumulator: int = 4,
    input_width: int = 4,
) -> None:
    memory = reduction_memory(
        tensor,
        dimensions,
        device.card.multiprocessors,
        device.card.capability,
        accumulator,
        input_width,
    )
    device.held("reduction", *memory.sizes())


def reduced_dimensions(call: Call) -> Sequence[int] | None:
    found = call.argument("dim")
    if isinstance(found, int):
        return [found]
    return found or None


@rule("sum", "mean", "nansum", certainty="exact")
def sums(device: Device, call: Call, outputs: Any) -> None:
    """Integers are added as int64, of which a copy is made; half precision is read directly."""
    tensor = call.args[0]
    if not is_on_card(tensor):
        return
    reads_directly = tensor.dtype == outputs.dtype or (
        is_half(tensor) and outputs.dtype == torch.float32
    )
    copy = 0
    if not reads_directly:
        copy = device.allocate(tensor.numel() * outputs.element_size(), call.name)
    size = accumulator_bytes(tensor, outputs.dtype)
    width = 8 if is_half(tensor) else 4
    take_reduction_memory(device, tensor, reduced_dimensions(call), size, width)
    device.free(copy)


@rule("count_nonzero", certainty="fitted", hook="births")
def count(device: Device, call: Call, outputs: Any) -> None:
    """The elements that are not zero, as integers."""
    tensor = call.args[0]
    if not is_on_card(tensor):
        device.births(outputs, call.name)
        return
    mask = 0 if tensor.dtype == torch.bool else device.allocate(tensor.numel(), call.name)
    device.births(outputs, call.name)
    integers = device.allocate(tensor.numel() * 8, call.name)
    take_reduction_memory(device, tensor, reduced_dimensions(call), 8)
    device.free(integers)
    device.free(mask)


@rule("any", "all", certainty="exact")
def truth(device: Device, call: Call, outputs: Any) -> None:
    if is_on_card(call.args[0]):
        take_reduction_memory(device, call.args[0], reduced_dimensions(call), 1)


@rule("amax", "amin", "linalg_vector_norm", "norm", "prod", certainty="exact")
def others(device: Device, call: Call, outputs: Any) -> None:
    tensor = call.args[0]
    if is_on_card(tensor):
        size = accumulator_bytes(tensor)
        take_reduction_memory(device, tensor, reduced_dimensions(call), size)


VALUE_AND_INDEX_BYTES = 16
WELFORD_BYTES = 16  # mean, sum of squares and twice the number of elements
WIDE_WELFORD_BYTES = 32


@rule("max", "min", "argmax", "argmin", "aminmax", certainty="fitted")
def extremes(device: Device, call: Call, outputs: Any) -> None:
    """With an index where one is asked for: of a dimension, or by the operation's name."""
    tensor = call.args[0]
    if not is_on_card(tensor) or (len(call.args) > 1 and isinstance(call.args[1], torch.Tensor)):
        return
    dimensions = reduced_dimensions(call)
    has_index = call.name.startswith("arg") or (
        dimensions is not None and call.name in ("max", "min")
    )
    size = VALUE_AND_INDEX_BYTES if has_index else accumulator_bytes(tensor)
    take_reduction_memory(device, tensor, dimensions, size)


@rule("var", "std", "var_mean", "std_mean", certainty="fitted")
def variances(device: Device, call: Call, outputs: Any) -> None:
    tensor = call.args[0]
    if is_on_card(tensor):
        size = WIDE_WELFORD_BYTES if tensor.dtype == torch.float64 else WELFORD_BYTES
        take_reduction_memory(device, tensor, reduced_dimensions(call), size, input_width=2)
