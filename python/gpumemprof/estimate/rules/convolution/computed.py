"""A convolution as cuDNN computes it: a transposed one is the gradient of another one's input."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gpumemprof.estimate.rules.convolution.shape import Convolution, Kind

__all__ = ["Computed", "as_computed"]


@dataclass(frozen=True)
class Computed:
    """The sizes of the three tensors, whichever of them is the result."""

    kind: Kind
    batch: int
    channels: int
    outputs: int
    groups: int
    kernel: tuple[int, ...]
    padding: tuple[int, ...]
    image: tuple[int, ...]
    output_image: tuple[int, ...]
    element_bytes: int
    is_channels_last: bool

    @property
    def input_planes(self) -> int:
        return self.batch * self.channels

    @property
    def output_planes(self) -> int:
        return self.batch * self.outputs

    @property
    def kernel_planes(self) -> int:
        return self.channels * self.outputs // self.groups

    @property
    def input_elements(self) -> int:
        return self.input_planes * math.prod(self.image)

    @property
    def output_elements(self) -> int:
        return self.output_planes * math.prod(self.output_image)

    @property
    def kernel_elements(self) -> int:
        return self.kernel_planes * math.prod(self.kernel)


def as_computed(convolution: Convolution, kind: Kind) -> Computed:
    each = convolution
    channels, outputs, image, result = each.channels, each.outputs, each.image, each.output_image
    if each.is_transposed:
        channels, outputs, image, result = outputs, channels, result, image
        if kind != "weight":
            kind = "data" if kind == "forward" else "forward"
    return Computed(
        kind,
        each.batch,
        channels,
        outputs,
        each.groups,
        each.kernel,
        each.padding,
        image,
        result,
        int(each.dtype.itemsize),
        each.is_channels_last,
    )
