"""Convolutions as networks have them, drawn at random: the same ones on every machine."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator

from gpumemprof.estimate.rules.convolution.shape import DTYPES, Convolution

__all__ = ["drawn"]

MOST_ELEMENTS = 1 << 28
MOST_OPERATIONS = 2e11
CHANNELS = (16, 24, 32, 40, 48, 64, 80, 96, 112, 128, 160, 192, 256, 320, 384, 512, 640, 768, 1024)
ENDS = (1, 2, 3, 3, 3, 4, 6, 10, 12, 21, 80, 100, 1000)
SIDES = (4, 7, 8, 14, 16, 20, 28, 32, 40, 56, 64, 80, 96, 112, 128, 160, 224, 256, 384, 512)
LENGTHS = (50, 100, 128, 250, 256, 500, 512, 1000, 1500, 3000, 8000, 16000, 48000)
BATCHES = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256, 512)
SETTINGS = (("f32", False),) * 5 + (("bf16", False), ("bf16", True), ("f16", False), ("f16", True))
# Kernel, stride, padding, dilation; those that are used most come several times.
WAYS = (
    *[(3, 1, 1, 1)] * 8,
    *[(1, 1, 0, 1)] * 8,
    *[(3, 2, 1, 1), (1, 2, 0, 1), (4, 2, 1, 1), (7, 2, 3, 1), (5, 1, 2, 1), (3, 1, 0, 1)] * 2,
    *[(2, 2, 0, 1), (7, 1, 3, 1), (5, 2, 2, 1), (8, 4, 0, 1), (4, 4, 0, 1), (3, 1, 2, 2)],
    *[(3, 1, 6, 6), (9, 1, 4, 1), (16, 16, 0, 1), (4, 1, 0, 1)],
)
TRANSPOSED_WAYS = ((2, 2, 0, 1), (4, 2, 1, 1), (3, 1, 1, 1), (4, 1, 0, 1))


def _draw(chooser: random.Random) -> Convolution:
    is_transposed = chooser.random() < 0.1
    dimensions = chooser.choices((1, 2, 3), (10, 80, 10))[0]
    way = chooser.choice(TRANSPOSED_WAYS if is_transposed else WAYS)
    kernel, stride, padding, dilation = ((size,) * dimensions for size in way)
    side = chooser.choice(LENGTHS if dimensions == 1 else SIDES)
    image: tuple[int, ...] = (side,) * dimensions
    if dimensions == 3:
        image = (chooser.choice((4, 8, 16, side)), side, side)
    channels = chooser.choice(CHANNELS)
    outputs = chooser.choice((channels, channels, channels * 2, channels // 2, *CHANNELS[:6]))
    groups = 1
    place = chooser.random()
    if place < 0.1:
        channels = chooser.choice(ENDS)
    elif place < 0.2:
        outputs = chooser.choice(ENDS)
    elif place < 0.3 and not is_transposed and way[0] > 1:
        groups = outputs = channels
    dtype, is_last = chooser.choice(SETTINGS)
    return Convolution(
        batch=chooser.choice(BATCHES),
        channels=channels,
        outputs=outputs,
        groups=groups,
        kernel=kernel,
        stride=stride,
        padding=padding,
        dilation=dilation,
        image=image,
        is_transposed=is_transposed,
        dtype=DTYPES[dtype],
        is_channels_last=is_last and dimensions > 1,
    )


def _is_reasonable(convolution: Convolution) -> bool:
    """Whether it has a result, and is neither slow nor larger than a small card."""
    here, there = convolution.image, convolution.output_image
    if min(there) < 1 or any(
        n + 2 * p < k for n, p, k in zip(here, convolution.padding, convolution.kernel)
    ):
        return False
    before = convolution.batch * convolution.channels * math.prod(here)
    after = convolution.batch * convolution.outputs * math.prod(there)
    pixels = max(math.prod(here), math.prod(there)) * convolution.batch
    work = 2.0 * convolution.weight_elements() * pixels
    return max(before, after) <= MOST_ELEMENTS and work <= MOST_OPERATIONS


def drawn(seed: int = 0) -> Iterator[Convolution]:
    chooser = random.Random(seed)
    seen: set[Convolution] = set()
    while True:
        convolution = _draw(chooser)
        if convolution not in seen and _is_reasonable(convolution):
            seen.add(convolution)
            yield convolution
