"""torch.cuda and torch.accelerator, answered by the simulated device."""

from __future__ import annotations

from gpumemprof.estimate.engine.device import Device
from gpumemprof.estimate.patches.cuda import (
    graphs,
    memory,
    properties,
    random_numbers,
    streams,
)
from gpumemprof.estimate.patches.patcher import Patcher

__all__ = ["install"]


def install(patcher: Patcher, device: Device) -> None:
    properties.install(patcher, device)
    memory.install(patcher, device)
    streams.install(patcher, device)
    random_numbers.install(patcher, device)
    graphs.install(patcher, device)
