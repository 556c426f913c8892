"""torch's CUDA allocator: its settings, its blocks, its counters and its own recorder."""

from __future__ import annotations

import os
from typing import Any

from gpumemprof.torch_calls.readiness import version

__all__ = [
    "allocator_settings",
    "backend",
    "counter_facts",
    "counters",
    "dump_recorder",
    "list_state",
    "peak_allocated",
    "pending_blocks",
    "retry_counts",
    "start_recorder",
]


def backend() -> str:
    """``native``, or the name of another allocator."""
    import torch

    return str(torch.cuda.get_allocator_backend())


def list_state() -> tuple[int, list[dict[str, Any]]]:
    """The number of devices, and the segments and blocks of all of them."""
    import torch

    if version() >= (2, 11):
        segments = torch.cuda.memory_snapshot(include_traces=False)
    else:
        segments = torch.cuda.memory_snapshot()
    return torch.cuda.device_count(), segments


def allocator_settings() -> str:
    """The settings string in effect, as far as torch reports it."""
    import torch

    settings = os.environ.get("PYTORCH_CUDA_ALLOC_CONF")
    if settings is None and version() >= (2, 10):
        settings = os.environ.get("PYTORCH_ALLOC_CONF")
    if not torch._C._cuda_isHistoryEnabled():
        # Without a history, a whole snapshot is as cheap as its segments, and has the settings.
        arguments = [] if version() <= (2, 7) else [None]
        found = torch._C._cuda_memorySnapshot(*arguments).get("allocator_settings", {})
        settings = found.get("PYTORCH_CUDA_ALLOC_CONF", settings)
    return settings or ""


# The limit for torch's own recorder, which keeps everything in memory: about 100 MiB.
_MOST_ENTRIES = 500_000


def start_recorder(stacks: bool) -> bool:
    """Turn on torch's own recorder; False if the program already has it on, and keeps it."""
    import torch

    if torch._C._cuda_isHistoryEnabled():
        return False
    torch.cuda.memory._record_memory_history(
        "all",
        context="alloc" if stacks else None,
        stacks="python",
        max_entries=_MOST_ENTRIES,
    )
    return True


def dump_recorder(path: str, switch_off: bool) -> None:
    """Write the contents of torch's own recorder, as torch would."""
    import torch

    torch.cuda.memory._dump_snapshot(path)
    if switch_off:
        torch.cuda.memory._record_memory_history(None)


def counter_facts() -> dict[str, str]:
    """The peaks that torch itself counted, for runs where no event could be recorded."""
    import torch

    found = {}
    for device in range(torch.cuda.device_count()):
        found[f"device {device} peak_allocated_bytes"] = str(
            torch.cuda.max_memory_allocated(device)
        )
        found[f"device {device} peak_reserved_bytes"] = str(torch.cuda.max_memory_reserved(device))
    return found


def peak_allocated(index: int, peak_requested_bytes: int) -> int | None:
    """The most bytes in blocks, as torch counted them; None if it did not count the whole run.

    torch counts requested bytes too: their peak differs from ours if the program has reset the
    peaks.
    """
    stats = counters(index)
    try:
        if int(stats["requested_bytes"]["all"]["peak"]) == peak_requested_bytes:
            return int(stats["allocated_bytes"]["all"]["peak"])
    except (KeyError, TypeError):
        return None
    return None


def retry_counts() -> dict[int, int]:
    """How often torch has flushed each device's pool so far because a request was refused."""
    import torch

    return {
        device: int(torch.cuda.memory_stats(device).get("num_alloc_retries", 0))
        for device in range(torch.cuda.device_count())
    }


def counters(index: int) -> dict[str, Any]:
    """The allocator's own counters, read at one moment."""
    import torch

    stats: dict[str, Any] = torch.cuda.memory_stats_as_nested_dict(index)
    return stats


def pending_blocks(index: int) -> list[tuple[int, int]]:
    """Freed blocks that a stream still uses, as (address, size)."""
    return [
        (block["address"], block["size"])
        for segment in list_state()[1]
        if segment["device"] == index
        for block in segment["blocks"]
        if block["state"] not in ("active_allocated", "inactive")
    ]
