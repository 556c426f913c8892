"""torch.cuda.cudart(): the few functions of CUDA's runtime that torch passes on to programs."""

from __future__ import annotations

import enum
from typing import Any

import torch

from gpumemprof.estimate.engine.device import Device
from gpumemprof.estimate.patches.patcher import Patcher

__all__ = ["install"]


class _Error(enum.IntEnum):
    success = 0


class _Runtime:
    """Names as in CUDA, whose functions return an error code unless they return something else."""

    cudaError = _Error  # noqa: N815

    def __init__(self, device: Device) -> None:
        self._device = device

    def __getattr__(self, name: str) -> Any:
        if name not in _WITHOUT_EFFECT:
            raise AttributeError(f"torch.cuda.cudart() has no {name} in an estimate")
        return lambda *_, **__: _Error.success

    def cudaMemGetInfo(self, *_: Any, **__: Any) -> tuple[int, int]:  # noqa: N802
        free, total = torch.cuda.mem_get_info(self._device.index)
        return free, total

    def cudaGetErrorString(self, *_: Any, **__: Any) -> str:  # noqa: N802
        return "no error"


_WITHOUT_EFFECT = frozenset(
    (
        "cudaDeviceSynchronize",
        "cudaHostRegister",
        "cudaHostUnregister",
        "cudaProfilerStart",
        "cudaProfilerStop",
        "cudaStreamCreate",
        "cudaStreamDestroy",
    )
)


def install(patcher: Patcher, device: Device) -> None:
    runtime = _Runtime(device)
    patcher.set(torch.cuda, "_cudart", runtime)
    patcher.set(torch.cuda, "cudart", lambda: runtime)
