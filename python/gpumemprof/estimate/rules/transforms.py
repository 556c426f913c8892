"""Fourier transforms, distances and random draws."""

from __future__ import annotations

from typing import Any

import torch

from gpumemprof.estimate.engine.device import Device
from gpumemprof.estimate.rules.copies import copies_inputs
from gpumemprof.estimate.rules.table import Call, rule
from gpumemprof.estimate.rules.tensors import bytes_of, divide_up, is_half, is_on_card

__all__: list[str] = []


ONE_KERNEL = 16384  # elements of a row that one kernel of cuFFT transforms
ONE_KERNEL_REAL = 1024  # of real numbers, if their number is no power of two
LARGEST_FACTOR = 127  # primes for which it has kernels
LARGEST_DIRECT = 2048
PADDED = 4.05  # rows of other lengths: two complex ones of twice the length, and a little more


def largest_prime(number: int) -> int:
    factor = largest = 2
    while factor * factor <= number:
        if number % factor:
            factor += 1
        else:
            number //= factor
            largest = max(largest, factor)
    return max(largest, number)


def plan_bytes(length: int, rows: int, complex_bytes: int, is_real: bool) -> int:
    """The workspace of cuFFT for rows; those of several dimensions mostly need none."""
    row = length * complex_bytes
    if largest_prime(length) > LARGEST_FACTOR:
        padded = PADDED if length > LARGEST_DIRECT else 0.0
        if is_real:  # two rows at once as one complex row
            return int(divide_up(rows, 2) * row * (1 + max(1.0, padded)))
        return int(rows * row * padded)
    if not is_real:
        return rows * row if length > ONE_KERNEL else 0
    is_power = length & (length - 1) == 0
    return rows * row // 2 if length > (ONE_KERNEL if is_power else ONE_KERNEL_REAL) else 0


def workspace_bytes(call: Call, real: torch.Tensor, complex_bytes: int, is_real: bool) -> int:
    dimensions = call.args[1]
    if len(dimensions) != 1:
        return 0
    length = real.size(dimensions[0])
    return plan_bytes(length, real.numel() // length, complex_bytes, is_real)


def _is_dense(tensor: torch.Tensor) -> bool:
    """Whether its elements fill its memory, in whatever order."""
    step = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape)):
        if size > 1 and stride != step:
            return False
        step *= size
    return True


@rule("_fft_c2r", certainty="fitted")
def inverse_transform(device: Device, call: Call, outputs: Any) -> None:
    """cuFFT overwrites its input, so it gets a copy."""
    if is_on_card(outputs):
        item = call.args[0].element_size()
        work = workspace_bytes(call, outputs, item, is_real=True)
        device.held(call.name, bytes_of(call.args[0]), work)


@rule("_fft_r2c", "_fft_c2c", certainty="fitted")
def transform(device: Device, call: Call, outputs: Any) -> None:
    """Real numbers are copied unless they are transformed along the last dimensions."""
    tensor, dimensions = call.args[:2]
    if not is_on_card(outputs):
        return
    is_real = call.name == "_fft_r2c"
    last = sorted(each % tensor.dim() for each in dimensions)[-1] == tensor.dim() - 1
    is_copied = not _is_dense(tensor) or (is_real and not (last and tensor.is_contiguous()))
    work = workspace_bytes(call, tensor, outputs.element_size(), is_real)
    device.held(call.name, bytes_of(tensor) if is_copied else 0, work)


@rule("abs", "angle", certainty="exact")
def real_part(device: Device, call: Call, outputs: Any) -> None:
    """Complex results first, whose real parts are copied."""
    if is_on_card(outputs) and call.args[0].is_complex():
        device.temporary(bytes_of(call.args[0]), call.name)


@rule("_cdist_backward", certainty="exact")
def distance_backward(device: Device, call: Call, outputs: Any) -> None:
    """The difference of each pair."""
    first, second, power = call.args[1:4]
    if is_on_card(outputs) and power != 0:
        device.temporary(bytes_of(first) * second.size(-2), call.name)


copies_inputs("_cdist_backward", inputs=(1, 2))


@rule("bernoulli", certainty="exact")
def coin_tosses(device: Device, call: Call, outputs: Any) -> None:
    """Probabilities in half precision are drawn from in single precision."""
    if is_on_card(outputs) and is_half(call.args[0]):
        device.temporary(call.args[0].numel() * 4, call.name)
