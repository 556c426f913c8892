"""torch.cuda and torch.accelerator, answered by the simulated device."""

from __future__ import annotations

from gpumemprof.estimate.engine.device import Device
from gpumemprof.estimate.patches.cuda import (
    copies_to_cards,
    graphs,
    memory,
    old_types,
    pools,
    profilers,
    properties,
    random_numbers,
    runtime,
    streams,
)
from gpumemprof.estimate.patches.patcher import Patcher

__all__ = ["install"]


def install(patcher: Patcher, device: Device) -> None:
    properties.install(patcher, device)
    memory.install(patcher, device)
    streams.install(patcher, device)
    random_numbers.install(patcher, device)
    private = pools.Pools(device)
    pools.install(patcher, device, private)
    graphs.install(patcher, device, private)
    old_types.install(patcher)
    profilers.install(patcher)
    runtime.install(patcher, device)
    copies_to_cards.install(patcher)
