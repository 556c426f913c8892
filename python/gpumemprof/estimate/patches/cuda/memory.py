"""Statistics and settings of the caching allocator."""

from __future__ import annotations

from typing import Any

import torch

from gpumemprof.estimate.engine.device import Device
from gpumemprof.estimate.patches.patcher import Patcher

__all__ = ["install"]


def install(patcher: Patcher, device: Device) -> None:
    # The names of their arguments are torch's: programs write `device=`, and `fraction=`.
    def limit(fraction: float, *_: Any, **__: Any) -> None:
        device.limit_fraction(fraction)

    def information(*_: Any, **__: Any) -> tuple[int, int]:
        return max(0, device.limit_bytes - device.memory.reserved_bytes), device.card.total_bytes

    def allocate(size: int, *_: Any, **__: Any) -> int:
        return device.allocate(size, "caching_allocator_alloc")

    def snapshot(*_: Any, **__: Any) -> Any:
        device.note("behaviour", "torch.cuda's memory snapshot is empty in an estimate")
        return {"segments": [], "device_traces": [[]], "allocator_settings": {}}

    answers: dict[str, Any] = {
        "memory_allocated": lambda *_, **__: device.memory.allocated_bytes,
        "max_memory_allocated": lambda *_, **__: device.memory.peak_allocated_bytes,
        "memory_reserved": lambda *_, **__: device.memory.reserved_bytes,
        "max_memory_reserved": lambda *_, **__: device.memory.peak_reserved_bytes,
        "memory_cached": lambda *_, **__: device.memory.reserved_bytes,
        "max_memory_cached": lambda *_, **__: device.memory.peak_reserved_bytes,
        "device_memory_used": lambda *_, **__: (
            device.memory.reserved_bytes + device.card.context_bytes
        ),
        "memory_stats": lambda *_, **__: _Statistics(device.memory.statistics()),
        "memory_stats_as_nested_dict": lambda *_, **__: _nested(device.memory.statistics()),
        "mem_get_info": information,
        "reset_peak_memory_stats": lambda *_, **__: device.memory.reset_peaks(),
        "reset_max_memory_allocated": lambda *_, **__: device.memory.reset_peaks(),
        "reset_max_memory_cached": lambda *_, **__: device.memory.reset_peaks(),
        "reset_accumulated_memory_stats": lambda *_, **__: None,
        "empty_cache": lambda *_, **__: device.memory.empty_cache(),
        "set_per_process_memory_fraction": limit,
        "get_per_process_memory_fraction": lambda *_, **__: (
            device.limit_bytes / device.card.total_bytes
        ),
        "caching_allocator_alloc": allocate,
        "caching_allocator_delete": device.free,
        "get_allocator_backend": lambda: "native",
        "memory_snapshot": lambda *_, **__: snapshot()["segments"],
        "host_memory_stats": lambda *_, **__: {},
        "reset_peak_host_memory_stats": lambda *_, **__: None,
        "list_gpu_processes": lambda *_, **__: "no processes are running",
    }
    for owner in (torch.cuda, torch.cuda.memory):
        for name, answer in answers.items():
            patcher.set_if_present(owner, name, answer)
    patcher.set(torch.cuda.memory, "_record_memory_history", lambda *_, **__: None)
    patcher.set(torch.cuda.memory, "_snapshot", snapshot)
    patcher.set(torch.cuda.memory, "_dump_snapshot", lambda *_, **__: snapshot())
    patcher.set_if_present(torch.cuda.memory, "_set_allocator_settings", lambda *_, **__: None)
    _install_accelerator(patcher, answers)


def _install_accelerator(patcher: Patcher, answers: dict[str, Any]) -> None:
    owners = [getattr(torch, "accelerator", None)]
    owners.append(getattr(owners[0], "memory", None))
    for owner in owners:
        if owner is None:
            continue
        for name in ("memory_allocated", "max_memory_allocated", "memory_reserved"):
            patcher.set_if_present(owner, name, answers[name])
        for name in ("max_memory_reserved", "memory_stats", "empty_cache"):
            patcher.set_if_present(owner, name, answers[name])
        for name in ("reset_peak_memory_stats", "reset_accumulated_memory_stats"):
            patcher.set_if_present(owner, name, answers[name])
        patcher.set_if_present(owner, "get_memory_info", answers["mem_get_info"])


class _Statistics(dict[str, int]):
    """torch has more keys than the simulator counts; those are 0."""

    def __missing__(self, key: str) -> int:
        return 0


def _nested(statistics: dict[str, int]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for key, value in statistics.items():
        *parents, last = key.split(".")
        place = nested
        for parent in parents:
            place = place.setdefault(parent, {})
        place[last] = value
    return nested
