"""What cuDNN's choice of an algorithm for a convolution depends on."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import torch

from gpumemprof.estimate.rules.tensors import is_channels_last, round_up

__all__ = ["DTYPES", "DTYPE_NAMES", "KINDS", "Convolution", "Kind"]

# The result, the gradient of the input, and that of the weight.
Kind = Literal["forward", "data", "weight"]
KINDS: tuple[Kind, ...] = ("forward", "data", "weight")
DTYPE_NAMES = {
    torch.float32: "f32",
    torch.bfloat16: "bf16",
    torch.float16: "f16",
    torch.float64: "f64",
}
DTYPES = {name: dtype for dtype, name in DTYPE_NAMES.items()}


@dataclass(frozen=True)
class Convolution:
    """What cuDNN's choice of an algorithm depends on."""

    batch: int
    channels: int
    outputs: int
    groups: int
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    image: tuple[int, ...]
    is_transposed: bool
    dtype: torch.dtype
    is_channels_last: bool
    output_padding: tuple[int, ...] = ()  # of a transposed one, where it is not 0

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
            result.size(1),
            groups,
            tuple(weight.shape[2:]),
            tuple(stride),
            tuple(padding),
            tuple(dilation),
            tuple(tensor.shape[2:]),
            is_transposed,
            tensor.dtype,
            is_channels_last(tensor) or is_channels_last(weight),
            tuple(output_padding) if is_transposed and any(output_padding) else (),
        )

    @staticmethod
    def named(key: str, setting: str, batch: int) -> Convolution:
        """The convolution that a row of the table is about."""
        channels, outputs, groups, *sizes = key[1:].split(",")
        kernel, stride, padding, dilation, image, *output_padding = (
            tuple(int(each) for each in text.split("x")) for text in sizes
        )
        dtype, _, layout = setting.partition("-")
        return Convolution(
            batch=batch,
            channels=int(channels),
            outputs=int(outputs),
            groups=int(groups),
            kernel=kernel,
            stride=stride,
            padding=padding,
            dilation=dilation,
            image=image,
            is_transposed=key[0] == "t",
            dtype=DTYPES[dtype],
            is_channels_last=layout == "last",
            output_padding=output_padding[0] if output_padding else (),
        )

    def key(self) -> str:
        numbers = [self.kernel, self.stride, self.padding, self.dilation, self.image]
        if self.output_padding:
            numbers.append(self.output_padding)
        sizes = ",".join("x".join(map(str, each)) for each in numbers)
        kind = "t" if self.is_transposed else "c"
        return f"{kind}{self.channels},{self.outputs},{self.groups},{sizes}"

    def setting(self) -> str:
        name = DTYPE_NAMES.get(self.dtype, "f32")
        return name + "-last" if self.is_channels_last else name

    @property
    def is_pointwise(self) -> bool:
        return math.prod(self.kernel) == 1

    @property
    def is_matrix_product(self) -> bool:
        """A plain product of weight and input, for which cuDNN may use cuBLAS."""
        is_plain = all(step == 1 for step in self.stride) and not any(self.padding)
        return self.is_pointwise and is_plain and self.groups == 1

    @property
    def output_image(self) -> tuple[int, ...]:
        more = self.output_padding or (0,) * len(self.image)
        sizes = []
        for n, k, s, p, d, o in zip(
            self.image, self.kernel, self.stride, self.padding, self.dilation, more
        ):
            reach = d * (k - 1) + 1
            sizes.append(
                (n - 1) * s - 2 * p + reach + o
                if self.is_transposed
                else (n + 2 * p - reach) // s + 1
            )
        return tuple(sizes)

    def copies_bytes(self) -> int:
        """Copies of input and output with the channels last, which are padded for tensor cores."""
        size = int(self.dtype.itemsize)
        lanes = 8 if size == 2 else 4
        total = self.channels_padded(self.channels, lanes) * math.prod(self.image)
        total += self.channels_padded(self.outputs, lanes) * math.prod(self.output_image)
        return self.batch * total * size

    def channels_padded(self, channels: int, lanes: int) -> int:
        return channels if self.groups > 1 else round_up(channels, lanes)

    def weight_elements(self) -> int:
        return self.channels * self.outputs // self.groups * math.prod(self.kernel)
