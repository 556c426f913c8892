"""How torch launches a reduction, and the global memory that the launch needs.

The arithmetic of setReduceConfig in ATen/native/cuda/Reduce.cuh: a reduction whose outputs are too
few to fill the card splits each output among several blocks, which meet in a buffer.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from gpumemprof.estimate.rules.tensors import divide_up

__all__ = ["ReductionMemory", "reduction_memory"]

MAX_THREADS = 512
WARP = 32
THREADS_PER_MULTIPROCESSOR = {(7, 5): 1024, (8, 6): 1536, (8, 7): 1536, (8, 9): 1536, (12, 0): 1536}
USUAL_THREADS_PER_MULTIPROCESSOR = 2048
WIDEST_OUTPUT = 4
SMALLEST_SPLIT = 16
LARGEST_SPLIT = 256


@dataclass(frozen=True)
class ReductionMemory:
    """The partial results of several blocks, and one counter for each output that they share."""

    buffer_bytes: int = 0
    semaphore_bytes: int = 0

    def sizes(self) -> tuple[int, int]:
        return self.buffer_bytes, self.semaphore_bytes


@dataclass
class Dimension:
    """A loop of the kernel; strides in elements, the output's is 0 where it is reduced."""

    size: int
    input_stride: int
    output_stride: int


def largest_power_of_two(number: int) -> int:
    return 1 << max(0, number.bit_length() - 1) if number >= 1 else 1


def _compare(left: Dimension, right: Dimension) -> int:
    """The order of loops: reduced first, then by the output's strides, then by the input's."""
    if (left.output_stride == 0) != (right.output_stride == 0):
        return -1 if left.output_stride == 0 else 1
    for a, b in (
        (left.output_stride, right.output_stride),
        (left.input_stride, right.input_stride),
    ):
        if a and b and a != b:
            return -1 if a < b else 1
    return 0


def loops(tensor: torch.Tensor, reduced: set[int]) -> list[Dimension]:
    """The loops over the input, fastest first, merged where they are one run of memory."""
    found: list[Dimension] = []
    output_stride = 1
    for d in reversed(range(tensor.dim())):
        size = tensor.size(d)
        is_reduced = d in reduced
        if size != 1:
            found.append(Dimension(size, tensor.stride(d), 0 if is_reduced else output_stride))
        if not is_reduced:
            output_stride *= size
    found.sort(key=functools.cmp_to_key(_compare))
    merged: list[Dimension] = []
    for loop in found:
        last = merged[-1] if merged else None
        if (
            last is not None
            and last.size * last.input_stride == loop.input_stride
            and last.size * last.output_stride == loop.output_stride
        ):
            last.size *= loop.size
        else:
            merged.append(loop)
    return merged


def _output_width(found: Sequence[Dimension], first_kept: int, offset: int) -> int:
    """How many neighbouring outputs a thread computes: all steps must be divisible by it."""
    width = WIDEST_OUTPUT
    others = [loop.input_stride for index, loop in enumerate(found) if index != first_kept]
    for number in [offset, found[first_kept].size, *others]:
        while number % width:
            width //= 2
    return width


def reduction_memory(
    tensor: torch.Tensor,
    dimensions: Sequence[int] | None,
    multiprocessors: int,
    capability: tuple[int, int] = (9, 0),
    accumulator_bytes: int = 4,
    input_width: int = 4,
) -> ReductionMemory:
    """The memory of a reduction of the tensor over the dimensions; None or none: over all."""
    if tensor.numel() == 0:
        return ReductionMemory()
    reduced = {d % tensor.dim() for d in dimensions or range(tensor.dim())}
    found = loops(tensor, reduced)
    reduced_count = sum(loop.output_stride == 0 for loop in found)
    outputs = math.prod(loop.size for loop in found[reduced_count:])
    inputs = tensor.numel() // outputs

    # Threads along x read the fastest dimension, threads along y the other.
    x_reduces = reduced_count == len(found) or (
        reduced_count > 0 and found[0].input_stride < found[reduced_count].input_stride
    )
    along_x, along_y = (inputs, outputs) if x_reduces else (outputs, inputs)
    fastest = found[0 if x_reduces else reduced_count] if found else None
    output_width = 1
    if fastest is not None and fastest.input_stride == 1:
        if x_reduces and along_x >= 128 and reduced_count == 1:
            along_x //= input_width
        elif not x_reduces:
            output_width = _output_width(found, reduced_count, tensor.storage_offset())
            along_x //= output_width

    threads = MAX_THREADS // 2 if tensor.dtype == torch.complex128 else MAX_THREADS
    limit = threads // output_width
    power_x = largest_power_of_two(along_x) if along_x < limit else limit
    power_y = largest_power_of_two(along_y) if along_y < limit else limit
    width = min(power_x, WARP)
    height = min(power_y, limit // width)
    width = min(power_x, limit // height)

    input_step, output_step = (width, 1) if x_reduces else (1, width)
    y_reduces = divide_up(inputs, input_step) >= min(height * SMALLEST_SPLIT, LARGEST_SPLIT)
    if y_reduces:
        input_step *= height
    else:
        output_step *= height
    per_thread = divide_up(inputs, input_step)
    grid = divide_up(outputs // output_width, output_step)
    resident = THREADS_PER_MULTIPROCESSOR.get(capability, USUAL_THREADS_PER_MULTIPROCESSOR)
    target = multiprocessors * (resident // (width * height))
    if not y_reduces or per_thread < LARGEST_SPLIT or grid > target:
        return ReductionMemory()
    blocks = max(
        min(divide_up(target, grid), divide_up(per_thread, SMALLEST_SPLIT)),
        divide_up(per_thread, LARGEST_SPLIT),
    )
    if blocks <= 1:
        return ReductionMemory()
    partial_results = outputs * blocks * (1 if x_reduces else width * output_width)
    return ReductionMemory(accumulator_bytes * partial_results, 4 * grid)
