"""The compiler times matrix products of odd shape, as they are and padded (fx_passes/pad_mm.py)."""

from __future__ import annotations

import contextlib
import math
from typing import Any, Callable

import torch

from gpumemprof.estimate.engine.device import Device
from gpumemprof.estimate.patches.patcher import Patcher
from gpumemprof.estimate.rules.matmul import take_cublas_workspace, take_cublaslt_workspace

__all__ = ["install"]

_NAME = "timing a padded product"


def install(patcher: Patcher, device: Device, pad_mm: Any) -> None:
    """Which of them is faster is not known here; the padded one mostly is."""
    trial: tuple[Any, ...] = ()
    done: set[Any] = set()

    def remembering(make_key: Callable[..., Any]) -> Callable[..., Any]:
        def make(match: Any, left: Any, right: Any, op: Any, *args: Any, **kwargs: Any) -> Any:
            nonlocal trial
            trial = (left, right, op, args[0] if args else kwargs.get("input"))
            return make_key(match, left, right, op, *args, **kwargs)

        return make

    def pads(key: Any, *_: Any) -> bool:
        device.note(
            "kernel", "a large matrix product of odd shape was taken to be faster with padding"
        )
        if trial and str(key) not in done:
            done.add(str(key))
            with contextlib.suppress(TypeError, ValueError, AttributeError):
                _try_both(device, pad_mm, *trial)
        return True

    if hasattr(pad_mm, "should_pad_bench_key"):
        patcher.set(pad_mm, "should_pad_bench_key", remembering(pad_mm.should_pad_bench_key))
    patcher.set_if_present(pad_mm, "get_cached_should_pad", pads)


def _try_both(device: Device, pad_mm: Any, left: Any, right: Any, op: Any, bias: Any) -> None:
    if left.device.type != "cuda":
        return
    element = left.element_size()
    shape = [*pad_mm.realize_symbols(left.size()), pad_mm.realize_symbols(right.size())[-1]]
    padded = [
        size + pad_mm.get_padded_length(size, pad_mm.get_alignment_size(left))
        for size in shape[-3:]
    ]
    batch = math.prod(shape[:-3])
    rows, inner, columns = shape[-3:]
    inputs = [batch * rows * inner, batch * inner * columns]
    has_bias = op is torch.ops.aten.addmm and bias is not None
    if has_bias:
        inputs += [math.prod(pad_mm.realize_symbols(bias.size()))] * 2
    addresses = [device.allocate(count * element, _NAME) for count in inputs]
    new_rows, new_inner, new_columns = padded
    copies = [
        batch * new_rows * new_inner if (new_rows, new_inner) != (rows, inner) else 0,
        batch * new_inner * new_columns if (new_inner, new_columns) != (inner, columns) else 0,
    ]
    cache_bytes = torch.cuda.get_device_properties().L2_cache_size
    for counts in ([batch * rows * columns], [*copies, batch * new_rows * new_columns]):
        sizes = [count * element for count in counts]
        held = [device.allocate(size, _NAME) for size in sizes]
        take_cublas_workspace(device)
        if has_bias:
            take_cublaslt_workspace(device)
        for address in reversed(held):
            device.free(address)
        device.held(_NAME, cache_bytes, *sizes)
    for address in reversed(addresses):
        device.free(address)
