"""Triton kernels, which cannot run without a GPU.

A kernel writes to tensors that exist already, so memory is the same if it does not run. To choose a
configuration, though, Triton times a kernel, and what it allocates for that is allocated here too.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from gpumemprof.estimate.engine.device import Device
from gpumemprof.estimate.patches.patcher import Patcher

__all__ = ["change_triton"]

# Triton overwrites it before each run that it times, so that the card's cache holds nothing else.
_FLUSHED_BYTES = 256 << 20


def change_triton(patcher: Patcher, module: ModuleType, device: Device) -> None:
    """In one of Triton's modules, change the classes that it defines."""
    kernel = getattr(module, "JITFunction", None)
    if kernel is not None:
        patcher.set(kernel, "run", _skip(device))
    tuner = getattr(module, "Autotuner", None)
    if tuner is not None:
        patcher.set(tuner, "_bench", _time(device))
        # Triton 3.2 asks it for a clock as soon as a kernel is defined.
        patcher.set(module, "driver", _NoDriver())
        patcher.set_if_present(tuner, "check_disk_cache", _time_always)


class _NoDriver:
    """In place of a card's, for what defines kernels and never runs them."""

    @property
    def active(self) -> _NoDriver:
        return self

    def get_benchmarker(self) -> None:
        return None


def _skip(device: Device) -> Any:
    def run(kernel: Any, *_: Any, **__: Any) -> None:
        name = getattr(getattr(kernel, "fn", kernel), "__name__", type(kernel).__name__)
        device.note("kernel", f"the Triton kernel {name} did not run: it allocates nothing")

    return run


def _time(device: Device) -> Any:
    def bench(tuner: Any, *args: Any, config: Any, **meta: Any) -> list[float]:
        import torch

        named = {**tuner.nargs, **meta, **config.all_kwargs()}

        def call() -> None:
            if config.pre_hook:
                config.pre_hook(named)
            tuner.pre_hook(named)
            tuner.fn.run(*args, **meta, **config.all_kwargs())
            tuner.post_hook(named, exception=None)

        call()
        flushed = torch.empty(_FLUSHED_BYTES, dtype=torch.uint8, device="cuda")
        call()
        del flushed
        name = tuner.base_fn.__name__
        device.note("kernel", f"Triton times the kernel {name} with a buffer of 256 MiB")
        return [1.0, 1.0, 1.0]

    return bench


def _time_always(_tuner: Any, _key: Any, _configs: Any, bench: Any) -> bool:
    """As where no result of an earlier run is kept."""
    bench()
    return False
