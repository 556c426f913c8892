"""What torch and the driver report about the cards: names, limits and total memory."""

from __future__ import annotations

from gpumemprof import _core

__all__ = [
    "card_ids",
    "card_indices",
    "card_memory",
    "card_sample",
    "card_total",
    "device_facts",
    "limit_bytes",
    "limit_facts",
]


def card_ids() -> dict[int, str]:
    """The id of the card of each device, as NVML names it."""
    import torch

    ids = {}
    for device in range(torch.cuda.device_count()):
        uuid = getattr(torch.cuda.get_device_properties(device), "uuid", None)
        if uuid is not None:
            text = str(uuid)
            ids[device] = text if text.startswith("GPU-") else f"GPU-{text}"
    return ids


def device_facts() -> dict[str, str]:
    """Names, total memory and limits of the devices; call only once CUDA is initialised."""
    import torch

    found = {}
    for device in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(device)
        found[f"device {device}"] = str(properties.name)
        found[f"device {device} total_bytes"] = str(properties.total_memory)
        fraction = getattr(torch.cuda, "get_per_process_memory_fraction", None)
        if fraction is not None:
            found[f"device {device} memory_fraction"] = str(fraction(device))
    return found


def limit_facts() -> dict[str, str]:
    """The current limits on this process: a program may change them at any time."""
    import torch

    fraction = getattr(torch.cuda, "get_per_process_memory_fraction", None)
    if fraction is None or not torch.cuda.is_initialized():
        return {}
    return {
        f"device {device} memory_fraction_at_end": str(fraction(device))
        for device in range(torch.cuda.device_count())
    }


def card_indices() -> list[int]:
    """The devices that this process sees."""
    import torch

    return list(range(torch.cuda.device_count()))


def limit_bytes(index: int) -> int | None:
    """What this process may reserve on a device; None if there is no limit."""
    import torch

    fraction = getattr(torch.cuda, "get_per_process_memory_fraction", None)
    share = 1.0 if fraction is None else float(fraction(index))
    if share >= 1:
        return None
    return int(share * torch.cuda.get_device_properties(index).total_memory)


def card_total(index: int) -> int | None:
    """Total bytes of the whole card, as the driver counts them."""
    try:
        return card_memory(index)[1]
    except RuntimeError:
        return None


def card_memory(index: int) -> tuple[int, int]:
    """Bytes in use on the whole card, by all processes, and its total bytes."""
    import torch

    free, total = torch.cuda.mem_get_info(index)
    return total - free, total


def card_sample(index: int) -> tuple[int | None, int | None]:
    """Bytes in use on the whole card, and by this process; read from NVML, never from CUDA."""
    uuid = card_ids().get(index)
    return (None, None) if uuid is None else _core.card_sample(uuid)
