"""The workspace of a convolution: measured where the table holds it, else fitted."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch

from gpumemprof.estimate.rules.tensors import divide_up, is_channels_last

__all__ = ["Convolution", "workspace_bytes"]

KINDS = ("forward", "data", "weight")


@dataclass(frozen=True)
class Convolution:
    """What cuDNN's choice of an algorithm depends on."""

    batch: int
    channels: int
    image: tuple[int, ...]
    outputs: int
    output_image: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    is_transposed: bool
    groups: int
    dtype: torch.dtype
    is_channels_last: bool
    weight_elements: int

    @staticmethod
    def of(
        tensor: torch.Tensor,
        weight: torch.Tensor,
        result: torch.Tensor,
        stride: Any,
        padding: Any,
        dilation: Any,
        is_transposed: bool,
        output_padding: Any,
        groups: int,
    ) -> Convolution:
        return Convolution(
            tensor.size(0),
            tensor.size(1),
            tuple(tensor.shape[2:]),
            result.size(1),
            tuple(result.shape[2:]),
            tuple(weight.shape[2:]),
            tuple(stride),
            tuple(padding),
            tuple(dilation),
            is_transposed,
            groups,
            tensor.dtype,
            is_channels_last(tensor) or is_channels_last(weight),
            weight.numel(),
        )

    @property
    def element_bytes(self) -> int:
        return int(self.dtype.itemsize)

    def input_bytes(self, lanes: int = 1) -> int:
        channels = divide_up(self.channels, lanes) * lanes
        return self.batch * channels * math.prod(self.image) * self.element_bytes

    def output_bytes(self) -> int:
        return self.batch * self.outputs * math.prod(self.output_image) * self.element_bytes

    def weight_bytes(self, lanes: int = 1) -> int:
        per_group = divide_up(self.channels // self.groups, lanes) * lanes
        return (
            self.weight_elements // (self.channels // self.groups) * per_group * self.element_bytes
        )

    def key(self) -> str:
        """The name of the shape in the table of measured workspaces."""
        numbers = (self.kernel, self.stride, self.padding, self.dilation, self.image)
        parts = ["x".join(map(str, each)) for each in numbers]
        kind = "t" if self.is_transposed else "c"
        return f"{kind}{self.channels},{self.outputs},{self.groups}," + ",".join(parts)


def workspace_bytes(
    convolution: Convolution, kind: str, capability: tuple[int, int]
) -> tuple[int, bool]:
    """The bytes, and whether they were measured."""
    return fitted_workspace(convolution, kind), False


def fitted_workspace(convolution: Convolution, kind: str) -> int:
    """cuDNN's tensor-core kernels read channels last: else the workspace holds copies.

    The gradient of the weight adds partial sums in single precision.
    """
    c = convolution
    if c.groups > 1 and c.groups == c.channels:
        return 0  # depthwise: torch's own kernels
    weight_sums = c.weight_elements * 4
    if c.is_channels_last:
        return 4 * min(weight_sums, 1 << 20) if kind == "weight" else 16
    lanes = 8 if c.element_bytes == 2 else 1
    copies = c.input_bytes(lanes) + c.output_bytes()
    pixels = math.prod(c.image)
    is_pointwise = math.prod(c.kernel) == 1
    if is_pointwise and all(step == 1 for step in c.stride):
        if pixels % 4:
            return copies + 16
        if kind != "weight":
            return 400
        if pixels * c.element_bytes % 16 == 0 and c.weight_elements <= 1 << 18:
            return 32 * weight_sums
        return copies + 16 + (4 * weight_sums if c.element_bytes == 4 else 0)
    if c.channels < 4 and c.kernel[0] <= 3:
        return 0  # a direct kernel
    if is_pointwise:
        has_sums = kind == "weight" and c.weight_elements <= 1 << 19
        return copies + 16 + (2 * weight_sums if has_sums else 0)
    return (
        copies + c.weight_bytes(lanes) + (_partial_sums(c, weight_sums) if kind == "weight" else 16)
    )


def _partial_sums(convolution: Convolution, weight_sums: int) -> int:
    if convolution.element_bytes == 4:
        if weight_sums <= 600 << 10:
            return 14 * weight_sums
        return 3 * weight_sums if weight_sums <= 3 << 20 else 7 * weight_sums // 12
    if weight_sums <= 300 << 10:
        return 13 * weight_sums
    return 4 * weight_sums if weight_sums <= 1 << 20 else 16
