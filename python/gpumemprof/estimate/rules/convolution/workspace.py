"""The workspace of a convolution: measured where the table holds it, else from the most alike.

cuDNN's tensor-core kernels read channels last. For other layouts the workspace holds copies of
input, output and weight; the gradient of the weight adds partial sums in single precision.
"""

from __future__ import annotations

import functools
import json
import math
from dataclasses import dataclass, replace
from importlib import resources
from typing import Any

import torch

from gpumemprof.estimate.rules.tensors import is_channels_last, round_up

__all__ = ["Convolution", "workspace_bytes"]

KINDS = {"forward": 0, "data": 1, "weight": 2}
DTYPE_NAMES = {
    torch.float32: "f32",
    torch.bfloat16: "bf16",
    torch.float16: "f16",
    torch.float64: "f64",
}
DTYPES = {name: dtype for dtype, name in DTYPE_NAMES.items()}
# Without a copy, cuDNN asks for a few pointers at most.
SMALL_BYTES = 4096


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
        )

    @staticmethod
    def named(key: str, setting: str, batch: int) -> Convolution:
        """The convolution that a row of the table is about."""
        channels, outputs, groups, *sizes = key[1:].split(",")
        kernel, stride, padding, dilation, image = (
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
        )

    def key(self) -> str:
        numbers = (self.kernel, self.stride, self.padding, self.dilation, self.image)
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
    def output_image(self) -> tuple[int, ...]:
        sizes = []
        for n, k, s, p, d in zip(self.image, self.kernel, self.stride, self.padding, self.dilation):
            reach = d * (k - 1) + 1
            sizes.append(
                (n - 1) * s - 2 * p + reach if self.is_transposed else (n + 2 * p - reach) // s + 1
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


def transferred(measured: Convolution, size: int, other: Convolution) -> int:
    """The workspace of another convolution that cuDNN computes in the same way."""
    if size <= SMALL_BYTES:
        return size
    weights = other.weight_elements() / measured.weight_elements()
    copies = measured.copies_bytes()
    if size >= copies:
        return int(other.copies_bytes() + (size - copies) * weights)
    if size % (measured.weight_elements() * 4) == 0:
        return int(size * weights)
    return int(size * other.copies_bytes() / copies)


def difference(one: Convolution, other: Convolution) -> float:
    """How different two shapes are: what decides between algorithms weighs most."""
    total = 0.0
    for a, b, weight in (
        (one.dtype, other.dtype, 4.0),
        (one.dtype.itemsize, other.dtype.itemsize, 8.0),
        (one.stride, other.stride, 2.0),
        (one.kernel, other.kernel, 2.0),
        (one.groups == one.channels, other.groups == other.channels, 8.0),
        (one.dilation, other.dilation, 2.0),
        (one.channels % 8 == 0, other.channels % 8 == 0, 3.0),
        (one.outputs % 8 == 0, other.outputs % 8 == 0, 3.0),
        (math.prod(one.image) % 4 == 0, math.prod(other.image) % 4 == 0, 3.0),
    ):
        total += weight * (a != b)
    total += abs(math.log2(one.channels / other.channels))
    total += abs(math.log2(one.outputs / other.outputs))
    return total + 0.5 * abs(math.log2(math.prod(one.image) / math.prod(other.image)))


Batches = dict[str, list[int]]
Shapes = dict[str, dict[str, Batches]]


@functools.cache
def measured_tables() -> dict[str, Shapes]:
    """ "shapes": workspaces; "trials": the largest that the search of cudnn.benchmark took."""
    folder = resources.files("gpumemprof.estimate.rules") / "data"
    text = (folder / "conv_h200.json").read_text(encoding="utf-8")
    tables: dict[str, Shapes] = json.loads(text)
    return tables


def category(convolution: Convolution) -> tuple[Any, ...]:
    """Convolutions of different categories are never alike."""
    return (
        convolution.is_channels_last,
        convolution.is_transposed,
        len(convolution.image),
        convolution.is_pointwise,
        convolution.groups > 1,
    )


@functools.cache
def measured_by_category(
    table: str,
) -> dict[tuple[Any, ...], list[tuple[Convolution, Batches]]]:
    found: dict[tuple[Any, ...], list[tuple[Convolution, Batches]]] = {}
    for key, settings in measured_tables()[table].items():
        for setting, batches in settings.items():
            convolution = Convolution.named(key, setting, 1)
            found.setdefault(category(convolution), []).append((convolution, batches))
    return found


def nearest_batch(batches: Batches, batch: int) -> str:
    return min(batches, key=lambda each: abs(math.log2(int(each) / batch)))


@functools.lru_cache(maxsize=4096)
def most_alike(
    convolution: Convolution, table: str = "shapes"
) -> tuple[Convolution, list[int]] | None:
    """The measured convolution of another shape that is most like this one, if one is at all."""
    rows = [
        row
        for row in measured_by_category(table).get(category(convolution), [])
        if row[0].key() != convolution.key()
    ]
    if not rows:
        return None
    alike, batches = min(rows, key=lambda row: difference(row[0], convolution))
    batch = nearest_batch(batches, convolution.batch)
    return replace(alike, batch=int(batch)), batches[batch]


def workspace_bytes(convolution: Convolution, kind: str, table: str = "shapes") -> tuple[int, bool]:
    """The bytes, and whether they were measured."""
    number = KINDS[kind]
    settings = measured_tables()[table].get(convolution.key(), {})
    batches = settings.get(convolution.setting(), {})
    if str(convolution.batch) in batches:
        return batches[str(convolution.batch)][number], True
    if batches:
        near = nearest_batch(batches, convolution.batch)
        same = replace(convolution, batch=int(near))
        return transferred(same, batches[near][number], convolution), False
    found = most_alike(convolution, table)
    if found is None:
        return convolution.copies_bytes() + convolution.weight_elements() * 4, False
    return transferred(found[0], found[1][number], convolution), False
