"""Runs a convolution on the GPU and reads from torch's counters what it took beside results."""

from __future__ import annotations

import functools
from typing import Any, Callable

import torch

from gpumemprof.estimate.rules.convolution.measured import encoded
from gpumemprof.estimate.rules.convolution.shape import Convolution

__all__ = ["environment", "measured_row"]

LAYOUTS = {4: torch.channels_last, 5: torch.channels_last_3d}


def environment() -> dict[str, Any]:
    """On which card the measurements are made, and with which libraries."""
    properties = torch.cuda.get_device_properties(0)
    return {
        "name": properties.name,
        "capability": [properties.major, properties.minor],
        "multiprocessors": properties.multi_processor_count,
        "total_bytes": properties.total_memory,
        "torch": str(torch.__version__),
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),
    }


def _requested(which: str) -> int:
    counters = torch._C._cuda_memoryStats(0)["requested_bytes"]["all"]
    return int(counters[which])


def _beside_results(run: Callable[[], Any]) -> tuple[int, Any]:
    torch._C._cuda_resetPeakMemoryStats(0)
    result = run()
    return _requested("peak") - _requested("current"), result


def measured_row(convolution: Convolution) -> str:
    """The convolution's row of a table; raises RuntimeError if the card cannot compute it."""
    each = convolution
    channels = (each.channels, each.outputs // each.groups)
    if not each.is_transposed:
        channels = (each.outputs, each.channels // each.groups)
    layout = torch.contiguous_format
    if each.is_channels_last:
        layout = LAYOUTS[len(each.image) + 2]
    options: dict[str, Any] = {"dtype": each.dtype, "device": "cuda", "memory_format": layout}
    source = torch.empty((each.batch, each.channels, *each.image), **options)
    weight = torch.empty((*channels, *each.kernel), **options)
    more = list(each.output_padding) or [0] * len(each.image)
    rest = (
        list(each.stride),
        list(each.padding),
        list(each.dilation),
        each.is_transposed,
        more,
        each.groups,
    )
    aten = torch.ops.aten
    forward, result = _beside_results(lambda: aten.convolution(source, weight, None, *rest))
    sizes = [forward]
    for index in range(2):
        wanted = [number == index for number in range(3)]
        given = (result, source, weight, None, *rest, wanted)
        size, gradients = _beside_results(functools.partial(aten.convolution_backward, *given))
        del gradients
        sizes.append(size)
    texts = " ".join(encoded(each, size) for size in sizes)
    return f"{each.key()} {each.setting()} {each.batch} {texts}"
