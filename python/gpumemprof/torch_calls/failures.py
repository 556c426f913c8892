"""torch's own exception for memory that ran out."""

from __future__ import annotations

__all__ = ["out_of_memory_type"]


def out_of_memory_type() -> type[BaseException] | None:
    """The type that torch's allocators raise; None if this torch has none of its own."""
    import torch

    for owner in (torch, torch.cuda):
        kind = getattr(owner, "OutOfMemoryError", None)
        if isinstance(kind, type) and issubclass(kind, BaseException) and kind is not RuntimeError:
            return kind
    return None
