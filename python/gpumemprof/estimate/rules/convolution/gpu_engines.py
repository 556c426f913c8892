"""The workspaces of algorithms that cuDNN offers only where there is a GPU.

Products by cuBLAS, Fourier transforms, Winograd's transforms in kernels of their own, and kernels
for depthwise convolutions. Their sizes follow from the shape; they were compared with cuDNN's
answers for 870,000 plans on an H200.
"""

from __future__ import annotations

import math
from dataclasses import replace

from gpumemprof.estimate.rules.convolution.computed import Computed
from gpumemprof.estimate.rules.convolution.shape import Convolution
from gpumemprof.estimate.rules.tensors import round_up

__all__ = [
    "LISTED",
    "PRODUCT",
    "SINGLE_BYTES",
    "engine_bytes",
    "engine_name",
    "is_one_product",
    "is_possible",
]

LISTED = "listed"  # the algorithm that cuDNN names without a GPU
PRODUCT, FFT, WINOGRAD, SUMS, NOTHING = "product", "fft", "winograd", "sums", "nothing"
# By the kind of the convolution, and cuDNN's number of the algorithm.
_NAMES = {
    "forward": {3: FFT, 5: NOTHING, 6: WINOGRAD, 58: PRODUCT},
    "data": {6: NOTHING, 7: WINOGRAD, 50: FFT, 63: PRODUCT},
    "weight": {16: SUMS, 17: WINOGRAD, 18: FFT, 19: NOTHING, 62: PRODUCT},
}
COMPLEX_BYTES = 8
SINGLE_BYTES = 4
LEAST_TRANSFORM = 16
TILE_TRANSFORM = 32  # of the algorithm that transforms tiles of the image
TILE_ELEMENTS = TILE_TRANSFORM * (TILE_TRANSFORM // 2 + 1)
MOST_GROUPS_AT_ONCE = 8
POINTER_BYTES = 16


def engine_name(kind: str, number: int) -> str:
    """Of an algorithm that cuDNN took on a GPU."""
    return _NAMES[kind].get(number, LISTED)


def is_possible(name: str, convolution: Convolution) -> bool:
    """Whether the algorithm can compute it at all."""
    each = convolution
    if name == PRODUCT:
        return each.is_matrix_product
    is_dense = all(step == 1 for step in (*each.stride, *each.dilation))
    if name == FFT:
        return is_dense and not each.is_pointwise and len(each.image) < 3
    if name == WINOGRAD:
        return is_dense and each.kernel in ((3, 3), (5, 5))
    if name in (SUMS, NOTHING):
        return len(each.image) < 3 and (is_dense or each.groups > 1)
    return True


def engine_bytes(name: str, computed: Computed) -> int:
    """The workspace of an algorithm; a product's is that of one matrix product per image."""
    if name == PRODUCT:
        return product_bytes(computed)
    if name == FFT:
        return _tiled_fft_bytes(computed) if computed.kind == "data" else _fft_bytes(computed)
    if name == WINOGRAD:
        return _winograd_bytes(computed)
    if name == SUMS:
        return _depthwise_sums_bytes(computed)
    return 0


def product_bytes(computed: Computed) -> int:
    """The gradients of the weight by image are summed up afterwards."""
    if computed.kind != "weight" or is_one_product(computed):
        return 0
    return computed.batch * computed.kernel_elements * SINGLE_BYTES


def is_one_product(computed: Computed) -> bool:
    """All images at once; cuBLAS may split it then, and sum up the parts."""
    return computed.is_channels_last or computed.batch == 1


def _copies_bytes(computed: Computed) -> int:
    """Copies with the channels first; with one channel, both layouts are the same."""
    elements = 0
    if computed.channels > 1:
        elements += computed.input_elements + computed.kernel_elements
    if computed.outputs > 1:
        elements += computed.output_elements
    return elements * computed.element_bytes + POINTER_BYTES


def _at_once(computed: Computed) -> Computed:
    """Groups are computed a few at a time."""
    groups = min(computed.groups, MOST_GROUPS_AT_ONCE)
    return replace(
        computed,
        channels=computed.channels // computed.groups * groups,
        outputs=computed.outputs // computed.groups * groups,
        groups=groups,
    )


def _transform_size(computed: Computed) -> int:
    sides = [size + 2 * more for size, more in zip(computed.image, computed.padding)]
    return max(LEAST_TRANSFORM, 1 << (max(sides) - 1).bit_length())


def _fft_bytes(computed: Computed) -> int:
    """Planes are transformed and put into the order of a product, so there are two of each."""
    part = _at_once(computed)
    side = _transform_size(part)
    transform = side * (side // 2 + 1) * COMPLEX_BYTES
    if part.kind == "weight":
        planes = max(part.input_planes + part.output_planes, part.kernel_planes)
        flipped = part.output_elements
    else:
        planes = max(part.input_planes + part.kernel_planes, part.output_planes)
        flipped = part.kernel_elements
    size = 2 * transform * planes + flipped * SINGLE_BYTES
    if part.groups > 1:
        size += (part.input_elements + part.output_elements) * SINGLE_BYTES
        size += part.groups * POINTER_BYTES
    return size + (_copies_bytes(computed) if computed.is_channels_last else 0)


def _tiled_fft_bytes(computed: Computed) -> int:
    """A second tile is transformed meanwhile, if the image has more than one."""
    reach = [
        size + 2 * (width - 1 - more)
        for size, width, more in zip(computed.output_image, computed.kernel, computed.padding)
    ]
    tiles = 1 if max(reach) <= TILE_TRANSFORM else 2
    planes = tiles * (computed.input_planes + computed.output_planes) + computed.kernel_planes
    size = COMPLEX_BYTES * TILE_ELEMENTS * planes
    return size + (_copies_bytes(computed) if computed.is_channels_last else 0)


def _winograd_bytes(computed: Computed) -> int:
    """Tiles of the result with 4 x 4 elements for kernels of 3 x 3, with 9 x 9 for 5 x 5."""
    part = _at_once(computed)
    tile = 9 if max(part.kernel) == 5 else 4
    transform = (tile + max(part.kernel) - 1) ** 2 * SINGLE_BYTES
    image = part.image if part.kind == "data" else part.output_image
    tiles = math.prod(-(-size // tile) for size in image)
    is_exact_batch = tile == 4 and part.kind == "weight"
    batch = part.batch if is_exact_batch else round_up(part.batch, 16)
    size = transform * (tiles * batch * (part.channels + part.outputs) + part.kernel_planes)
    return size + (_copies_bytes(computed) if computed.is_channels_last else 0)


def _depthwise_sums_bytes(computed: Computed) -> int:
    """With channels last, the gradient of a depthwise weight is summed up by image."""
    if not computed.is_channels_last:
        return 0
    return computed.batch * round_up(computed.channels, 32) * math.prod(computed.kernel) * 32
